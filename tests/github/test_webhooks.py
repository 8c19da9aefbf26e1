"""Webhooks of the stand-in: their bodies are as GitHub's own, they are signed, and tests decide when they arrive."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.github import published
from tests.github.desk import Desk
from tests.github.hooks import Delivery
from tests.github.published import Document


class Ear:
    """What an App's server hears, answered with `status`."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.status = 202
        ear = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                ear.heard.append(({name.lower(): value for name, value in self.headers.items()}, raw))
                self.send_response(ear.status)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is to be said."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def ids(self) -> list[str]:
        return [headers["x-github-delivery"] for headers, _ in self.heard]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def ear(desk: Desk) -> Iterator[Ear]:
    made = Ear()
    desk.app.webhook_url = made.url
    yield made
    made.close()


def everything(desk: Desk) -> list[Delivery]:
    """All that can happen has happened, and was told."""
    github, repo, other, ada = desk.github, desk.repo, desk.other, desk.ada
    github.hooks.all.clear()
    github.push_from_outside(repo, "work", {"a.txt": "a\n"}, onto=github.head(repo), by=ada)
    pull = github.open_pull(repo, "work", by=ada)
    github.push_from_outside(repo, "work", {"a.txt": "b\n"}, by=desk.grace)
    desk.ask("POST", f"/repos/acme/app/issues/{pull.number}/comments", desk.token, {"body": "See."})
    github.merge(repo, pull, ada)
    github.push_from_outside(repo, "odd", onto="", by=ada)
    github.delete_branch(repo, "odd")
    github.rename(repo, "better", ada)
    github.change_default_branch(repo, "work")
    github.archive(repo, by=ada)
    github.archive(repo, False, by=ada)
    github.cover(desk.app, desk.acme, [repo, other])
    github.cover(desk.app, desk.acme, [repo])
    github.transfer(repo, ada)
    github.cover(desk.app, desk.acme, "all")
    github.make_repo("acme/new")
    github.delete(other)
    github.rename_account(desk.acme, "acme-inc")
    github.suspend(desk.installation, ada)
    github.unsuspend(desk.installation, ada)
    github.revoke(desk.app, ada)
    again = github.install(desk.app, desk.ada)
    github.uninstall(again)
    return github.hooks.all


def test_every_delivery_is_as_the_document_says(desk: Desk, document: Document) -> None:
    for delivery in everything(desk):
        document.look_at_webhook(delivery.event, delivery.action, delivery.body)


@pytest.mark.needs("npm")
def test_every_delivery_has_the_members_and_types_of_githubs_own(desk: Desk) -> None:
    """What all of GitHub's own deliveries of a kind have, none lacks; and it is of a type that it has in some.

    They are of several years: what was added since, only the document knows.
    """
    shown = published.examples()
    kinds = _kinds(shown.values())
    wrong = set()
    for delivery in everything(desk):
        what = f"{delivery.event} {delivery.action}"
        alike = shown.get((delivery.event, delivery.action)) or _of(shown, delivery.event)
        if not alike:
            assert delivery.event == "installation_target"  # the document alone has it
            continue
        ours, theirs = _members([delivery.body]), [_members([body]) for body in alike]
        for path in set.intersection(*map(set, theirs)) - set(ours):
            # Which permissions there are is the App's; a list may be empty, what is null has no members, and of a pull
            # request's repository the document knows no such member.
            parent = path.rpartition(".")[0]
            beside = path.endswith(("[]", ".repo.custom_properties")) or "permissions" in path
            if not beside and "dict" in ours.get(parent, set()):
                wrong.add(f"{what} has no {path}")
        for path, types in ours.items():
            known = kinds.get(_short(path), set())
            if known - {"NoneType"} and not types <= known | {"NoneType"}:
                wrong.add(f"{what} {path}: {types}, not {known}")
    assert not wrong, "\n".join(sorted(wrong))


def _of(shown: dict[tuple[str, str], list[dict[str, Any]]], event: str) -> list[dict[str, Any]]:
    return [body for (name, _), bodies in shown.items() if name == event for body in bodies]


def _short(path: str) -> str:
    """A member and whose it is: an account is one wherever it stands."""
    return ".".join(path.split(".")[-2:])


def _kinds(shown: Iterable[list[dict[str, Any]]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for bodies in shown:
        for path, types in _members(bodies).items():
            found.setdefault(_short(path), set()).update(types)
    return found


def _members(bodies: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Every member's path and the types that it has."""
    found: dict[str, set[str]] = {}

    def walk(path: str, value: Any) -> None:
        found.setdefault(path, set()).add(type(value).__name__)
        if isinstance(value, dict):
            for name, each in value.items():
                walk(f"{path}.{name}" if path else name, each)
        elif isinstance(value, list):
            for each in value:
                walk(f"{path}[]", each)

    for body in bodies:
        walk("", body)
    return found


# How they are sent ----------------------------------------------------------------------------------------------------


def test_a_delivery_is_signed_and_says_what_it_is(desk: Desk, ear: Ear) -> None:
    desk.github.push_from_outside(desk.repo, by=desk.ada)
    desk.github.hooks.settle()
    headers, raw = ear.heard[0]
    assert (headers["x-github-event"], headers["content-type"]) == ("push", "application/json")
    digest = hmac.new(desk.app.webhook_secret.encode(), raw, hashlib.sha256).hexdigest()
    assert headers["x-hub-signature-256"] == f"sha256={digest}"
    assert json.loads(raw) == desk.github.hooks.last("push").body
    assert desk.github.hooks.last("push").status == 202


def test_what_is_held_is_sent_in_the_order_that_a_test_wants(desk: Desk, ear: Ear) -> None:
    desk.github.hooks.hold()
    heads = [desk.github.push_from_outside(desk.repo) for _ in range(3)]
    desk.github.hooks.settle()
    assert ear.heard == []
    desk.github.hooks.release(lambda held: held[::-1])
    desk.github.hooks.settle()
    assert [json.loads(raw)["after"] for _, raw in ear.heard] == heads[::-1]


def test_what_is_dropped_never_arrives_and_what_is_repeated_has_the_same_id(desk: Desk, ear: Ear) -> None:
    desk.github.hooks.drop(lambda delivery: delivery.event == "push")
    desk.github.push_from_outside(desk.repo)
    desk.github.rename(desk.repo, "better")
    desk.github.hooks.keep()
    desk.github.hooks.settle()
    renamed = desk.github.hooks.last("repository", "renamed")
    assert ear.ids == [renamed.id]
    desk.github.hooks.again(renamed)
    desk.github.hooks.settle()
    assert ear.ids == [renamed.id, renamed.id]


def test_a_delivery_that_is_refused_is_not_tried_again(desk: Desk, ear: Ear) -> None:
    ear.status = 500
    desk.github.push_from_outside(desk.repo)
    desk.github.hooks.settle()
    assert (len(ear.heard), desk.github.hooks.last("push").status) == (1, 500)


def test_an_app_hears_only_of_what_it_covers_and_asked_for(desk: Desk) -> None:
    github = desk.github
    github.hooks.all.clear()
    github.push_from_outside(desk.other)
    desk.installation.events = ("repository",)
    github.push_from_outside(desk.repo)
    assert github.hooks.all == []
    github.suspend(desk.installation)
    github.archive(desk.repo)
    github.uninstall(desk.installation)
    assert [(one.event, one.action) for one in github.hooks.all] == [
        ("installation", "suspend"), ("installation", "deleted"),
    ]  # fmt: skip
