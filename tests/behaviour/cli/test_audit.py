"""`rift audit` on a running system: what was done is there, once, without a secret; what is changed is found."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from tests.behaviour.cli.systems import SAMPLE, Running, rift, system
from tests.wire.clients import Raw

from keel.postgres import SUPERUSER, EmbeddedPostgres
from keel.testing import eventually
from keel.testing.plugin import FreshDatabase

TABLES = ("ledger", "ledger_leaves", "ledger_checkpoints", "ledger_keys")
WRITTEN = "what-the-file-says-7c1e"
PRINTED = "what-the-command-prints-51fd"
TYPED = "what-was-typed-9b02"
PASSWORD = "pass-of-the-address-e4aa"


class Story:
    """A system in which everything was called once and more, with secrets wherever they may stand."""

    def __init__(self, up: Running) -> None:
        self.up = up
        self.calls = 0
        self.secrets: dict[str, str] = {}

    def keep(self, name: str, secret: str) -> str:
        """A secret that must stand nowhere."""
        self.secrets[name] = secret
        return secret

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A call, answered or refused: the message that came back."""
        self.calls += 1
        reply = await self.up.raw(tool, **arguments)
        assert reply.status == (400 if tool.startswith("rift_nothing") else 200), reply
        return dict(reply.messages[-1])

    async def handle(self, tool: str, **arguments: Any) -> str:
        """A call that answers a handle."""
        found = re.search(r"task_\w{8}\.[\w-]{43}", json.dumps(await self.call(tool, **arguments)))
        assert found
        return found[0]

    async def play(self) -> None:
        """Use every tool, well and badly."""
        up = self.up
        token = self.keep("the token", up.token)
        first = self.keep("a handle", await self.handle("rift_task_new", name="work"))
        id = first.partition(".")[0]
        await self.call("rift_task_ls")
        await self.call("rift_whoami")
        await self.call("rift_repos", org="personal")
        await self.call("rift_watch", repo=SAMPLE, ref="main", warm=1)
        await self.call("rift_task_attach", task=first)
        task = self.keep("a second handle", await self.handle("rift_task_attach", task=id, takeover=True))
        box = await self.box(task)
        self.keep("the agent's token", (up.data / "boxes" / box / "token").read_text().strip())
        address = f"https://ada:{self.keep('a password', PASSWORD)}@example.org/x.git"
        typed = f"echo {TYPED} {task} {token} {address}; echo {self.keep('output', PRINTED)}"
        await self.call("rift_bash", task=task, vm=box, command=typed, timeout=60, block_for=30)
        await self.call("rift_write", task=task, vm=box, path="a", content=self.keep("a file's content", WRITTEN))
        await self.call("rift_read", task=task, vm=box, path="a")
        await self.call("rift_output", task=task, commands=[{"id": f"{box}.1", "offset": 0}], block_for=0)
        await self.call("rift_stop", task=task, id=f"{box}.1")
        await self.call("rift_vm_suspend", task=task, vm=box)
        await self.call("rift_org_new", name="tables")
        await self.call("rift_org_invite", org="tables", email="grace@example.org")
        await self.call("rift_account_invite", email="lin@example.org")
        await self.call("rift_waitlist")
        await self.call("rift_github_login")
        await self.call("rift_github_connect", org="personal")
        await self.call("rift_github_enable", org="personal", account="nobody")
        await self.call("rift_docs")
        await self.call("rift_audit", task=task, vm=box)
        # What goes wrong: the wrong thing in the wrong place.
        for secret in (first, task, token, address):
            await self.call("rift_vm_ls", task=secret)
            await self.call("rift_vm_destroy", task=task, vm=secret)
            await self.call("rift_repos", org=secret)
            await self.call("rift_watch", repo=secret, ref=secret, warm=1)
            await self.call("rift_read", task=task, vm=box, path=secret)
            await self.call("rift_stop", task=task, id=secret)
            await self.call("rift_bash", task=secret, vm=secret, command=secret, timeout=0, block_for=0)
            await self.call("rift_bash", **{secret: secret})
            await self.call("rift_task_new", name=secret)
            await self.call("rift_org_new", name=secret)
            await self.call("rift_org_invite", org="tables", email=secret)
            await self.call("rift_org_accept", org=secret)
            await self.call("rift_account_invite", email=secret)
            await self.call("rift_waitlist", since=secret)
            await self.call("rift_github_connect", org=secret)
            await self.call("rift_github_enable", org=secret, account=secret)
            await self.call("rift_feedback", items=[{"text": secret, "category": "bug", "context": secret}])
            await self.call("rift_audit", task=secret, vm=secret)
            await self.call(f"rift_nothing_{secret}")
        await self.call("rift_unwatch", repo=SAMPLE, ref="nothing")
        await self.call("rift_vm_destroy", task=task, vm=box)
        await self.call("rift_task_release", task=task)
        last = self.keep("a third handle", await self.handle("rift_task_attach", task=id))
        await self.call("rift_task_close", task=last)
        await Raw(up.url, self.keep("a wrong token", token[:-6] + "wrongs")).call("rift_whoami", {})
        made = rift("token", "new", "--user", "admin@localhost.localdomain", "--client", "Other", "--data", up.data)
        self.keep("another token", made.out.split()[-1])
        rift("repo", "add", "acme/app", f"http://ada:{PASSWORD}@127.0.0.1:9/app.git", "--data", up.data)
        rift("repo", "add", "acme/app", address.replace("https", "ext::sh"), "--data", up.data)

    async def box(self, task: str) -> str:
        """A box of the sample that runs."""
        found = re.search(
            r"b-[0-9a-f]{24}", json.dumps(await self.call("rift_vm_new", task=task, repo=SAMPLE, ref="main"))
        )
        assert found
        box = found[0]

        async def runs() -> bool:
            return '"status": "running"' in json.dumps(await self.call("rift_vm_ls", task=task))

        await eventually(runs, within=60, every=0.2)
        return box


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with system() as up:
        told = Story(up)
        asyncio.run(told.play())
        yield told


def rows(up: Running, statement: str, role: str = "rift_owner") -> list[tuple[Any, ...]]:
    """What a query finds in the system's own database."""
    with psycopg.connect(EmbeddedPostgres(up.data).url(role), autocommit=True) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


def test_each_call_is_one_row_whoever_refused_it(story: Story) -> None:
    ((recorded,),) = rows(story.up, "SELECT count(*) FROM ledger WHERE via = 'mcp:First' AND NOT action = 'rift_watch'")
    ((watched,),) = rows(
        story.up, "SELECT count(*) FROM ledger WHERE action = 'rift_watch' AND NOT arguments = "
        "'{\"ref\": \"main\", \"repo\": \"sample/hello\", \"warm\": 1}'::jsonb"
    )  # fmt: skip
    ((sample,),) = rows(
        story.up, "SELECT count(*) FROM ledger WHERE action = 'rift_watch' AND arguments = "
        "'{\"ref\": \"main\", \"repo\": \"sample/hello\", \"warm\": 1}'::jsonb"
    )  # fmt: skip
    assert sample == 2  # the first start's own, and the story's
    assert recorded + watched + 1 == story.calls
    used = {name for (name,) in rows(story.up, "SELECT DISTINCT action FROM ledger WHERE via = 'mcp:First'")}
    from rift.wire.mcp.tools import TOOLS

    assert used == {tool.name for tool in TOOLS} | {"tools/call"}


def test_no_secret_stands_in_the_ledger_in_what_audit_prints_or_in_the_log(story: Story, tmp_path: Path) -> None:
    up = story.up
    told = {table: str(rows(up, f"SELECT t::text FROM {table} t")) for table in (*TABLES, "ledger_texts")}
    file = tmp_path / "proof.json"
    listed = rift("audit", "ls", "--limit", "1000", "--json", "--data", up.data)
    told["ls --json"] = listed.out
    told["ls"] = rift("audit", "ls", "--limit", "1000", "--data", up.data).out
    (typed,) = [one["seq"] for one in listed.json if one["action"] == "rift_bash" and one["outcome"] == "ok"]
    told["show"] = rift("audit", "show", str(typed), "--data", up.data).out
    told["proof"] = rift("audit", "proof", str(typed), "--data", up.data).out
    file.write_text(told["proof"])
    told["check"] = rift("audit", "check", file).out
    told["checkpoint"] = rift("audit", "checkpoint", "--data", up.data).out
    told["keys"] = rift("audit", "keys", "--json", "--data", up.data).out
    told["verify"] = rift("audit", "verify", "--json", "--data", up.data).out
    told["log"] = up.errors()
    story.keep("the private key", (up.data / "audit" / "key.pem").read_text().splitlines()[1])
    found = {
        (name, place)
        for place, text in told.items()
        for name, secret in story.secrets.items()
        if secret in text or (secret.partition(".")[2] and secret.partition(".")[2] in text)
    }
    # What a command prints can be read off its text where it was typed, and there alone.
    assert found == {("output", "ledger_texts"), ("output", "show")}
    assert {place for place, text in told.items() if TYPED in text} == {"ledger_texts", "show"}
    assert "<your handle> <your token> https://<your credentials>@example.org" in told["show"]


def test_records_are_listed_narrowed_and_told_how_to_go_on(story: Story) -> None:
    data = story.up.data
    some = rift("audit", "ls", "--limit", "3", "--data", data).out.splitlines()
    assert len(some) == 4
    assert some[3].startswith("older: `")
    last = some[2].split()[0]
    assert f"--after {last}" in some[3]
    assert int(rift("audit", "ls", "--after", last, "--limit", "1", "--data", data).out.split()[0]) < int(last)
    refused = rift(
        "audit", "ls", "--outcome", "refused", "--json", "--since", "1h", "--limit", "500", "--data", data
    ).json
    assert {one["outcome"] for one in refused} >= {"bad_arguments", "unknown_tool", "vm_unknown", "task_in_use"}
    assert "ok" not in {one["outcome"] for one in refused}
    mine = rift(
        "audit", "ls", "--user", "admin@localhost.localdomain", "--tool", "rift_bash", "--json", "--data", data
    ).json
    assert {(one["user"], one["via"], one["action"]) for one in mine} == {
        ("admin@localhost.localdomain", "mcp:First", "rift_bash")
    }
    for nothing in (["--until", "2020-01-01"], ["--task", "task_zzzzzzzz"], ["--until", "999999w"]):
        told = rift("audit", "ls", *nothing, "--data", data)
        assert told.status == 0
        assert told.out.startswith("No record fits.")


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("ls --since yesterday", 2, "--since takes 90s, 15m, 2h, 3d, 1w, or an instant"),
        ("ls --since 99999999999999w", 2, "--since takes"),
        ("ls --limit 0", 2, "--limit"),
        ("ls --after 99999999999999999999999", 2, "--after"),
        ("verify --from 99999999999999999999999", 2, "--from"),
        ("ls --user nobody@example.org", 1, "Nobody here has the email address"),
        ("ls --after 999999", 1, "There is no record 999999"),
        ("show 999999", 1, "There is no record 999999"),
        ("show 99999999999999999999999", 2, "SEQ"),
        ("proof 999999", 1, "There is no record 999999"),
        ("verify --key 12", 2, "64 hexadecimal digits"),
        ("verify --against /nowhere", 1, "/nowhere cannot be read"),
        ("check /nowhere", 1, "/nowhere cannot be read"),
        ("checkpoint --out /nowhere/x", 1, "/nowhere/x cannot be written"),
    ],
)
def test_what_is_asked_wrongly_is_said_in_a_sentence(story: Story, line: str, status: int, sentence: str) -> None:
    place: list[str | Path] = [] if line.startswith("check ") else ["--data", story.up.data]
    told = rift("audit", *line.split(), *place)
    assert told.status == status, told
    assert sentence in " ".join(told.err.split()), told


def test_the_worker_of_a_running_system_seals_by_itself(story: Story) -> None:
    assert rift("user", "add", "grace@example.com", "--data", story.up.data).status == 0
    newest = rift("audit", "ls", "--limit", "1", "--json", "--data", story.up.data).json[0]
    assert newest["action"] == "rift user add"

    def sealed() -> bool:
        shown = rift("audit", "show", str(newest["seq"]), "--json", "--data", story.up.data).json
        return shown["seal"] is not None

    asyncio.run(eventually(sealed, within=90, every=1))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"type": "keel.proof", "v": 1}', "[" * 100_000, "\udcff"])
def test_a_file_that_is_no_proof_or_checkpoint_is_said_to_be_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    commands: list[list[str | Path]] = [["check", file], ["verify", "--against", file, "--data", tmp_path / "data"]]
    for command in commands:
        told = rift("audit", *command)
        assert told.status == 1, told
        assert str(file) in told.err


def test_a_proof_is_checked_without_the_system_and_a_changed_one_does_not_hold(story: Story, tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    assert (
        rift("audit", "proof", "2", "--out", file, "--data", story.up.data).out
        == f"The proof of record 2 is in {file}.\n"
    )
    key = rift("audit", "keys", "--json", "--data", story.up.data).json[-1]["public"]
    good = rift("audit", "check", file, "--key", key, env={"RIFT_DATA": str(tmp_path / "nothing")})
    assert good.status == 0, good
    assert '"seq":2' in good.out
    assert not (tmp_path / "nothing").exists()
    assert rift("audit", "check", file, "--key", "00" * 32).status == 1
    told = json.loads(file.read_text())
    for name, other in (
        ("record", told["record"].replace('"ok"', '"error"')), ("index", told["index"] + 1), ("path", told["path"][1:]),
        ("public_key", "11" * 32), ("checkpoint", {**told["checkpoint"], "at": "2026-01-01T00:00:00Z"}),
    ):  # fmt: skip
        file.write_text(json.dumps({**told, name: other}))
        bad = rift("audit", "check", file)
        assert bad.status == 1, name
        assert bad.out.startswith("It does not hold: "), bad


def test_what_is_changed_in_the_database_is_found_and_named_by_number(story: Story, tmp_path: Path) -> None:
    data, kept = story.up.data, tmp_path / "kept.json"
    assert rift("audit", "checkpoint", "--out", kept, "--data", data).status == 0
    intact = rift("audit", "verify", "--against", kept, "--data", data)
    assert intact.status == 0, intact
    assert intact.out.startswith("Intact: ")
    off = "SET session_replication_role = replica; UPDATE ledger SET outcome = '{}' WHERE seq = 3"
    ((was,),) = rows(story.up, "SELECT outcome FROM ledger WHERE seq = 3")
    rows(story.up, off.format("never"), SUPERUSER)
    told = rift("audit", "verify", "--data", data)
    assert (told.status, told.out.splitlines()[0]) == (1, "changed: record 3 was changed after it was sealed")
    assert told.out.splitlines()[-1].startswith("NOT INTACT: ")
    report = json.loads(rift("audit", "verify", "--json", "--data", data).out)
    assert report["intact"] is False
    assert [(one["kind"], one["seq"]) for one in report["problems"]] == [("changed", 3)]
    rows(story.up, off.format(was), SUPERUSER)
    assert rift("audit", "verify", "--data", data).status == 0


def test_a_task_is_erased_a_key_replaced_and_all_stays_intact(story: Story) -> None:
    data = story.up.data
    (typed,) = rift("audit", "ls", "--tool", "rift_bash", "--outcome", "ok", "--json", "--data", data).json
    assert rift("audit", "erase", "--task", typed["task"], "--data", data).status == 0
    shown = rift("audit", "show", str(typed["seq"]), "--json", "--data", data).json
    assert (shown["text"], shown["text_state"]) == (None, "erased")
    left = rows(story.up, f"SELECT input FROM commands WHERE input LIKE '%{TYPED}%'")
    assert left == []
    assert rift("audit", "rotate", "--data", data).status == 0
    assert rift("audit", "checkpoint", "--data", data).status == 0
    assert rift("audit", "verify", "--data", data).status == 0
    assert [one["action"] for one in rift("audit", "ls", "--limit", "2", "--json", "--data", data).json] == [
        "rift audit rotate", "rift audit erase",
    ]  # fmt: skip
    listed = rift("audit", "keys", "--data", data).out.splitlines()
    assert len(listed) == 2
    assert "endorsed by" in listed[1]


def test_with_two_addresses_the_server_cannot_change_the_ledger_and_the_owner_migrates(
    database: FreshDatabase, tmp_path: Path
) -> None:
    with psycopg.connect(database.owner, autocommit=True) as owner:
        owner.execute("DROP SCHEMA public CASCADE")
        owner.execute("CREATE SCHEMA public")
    both = {"Rift__Database__Url": database.runtime, "Rift__Database__OwnerUrl": database.owner}
    alone = rift("migrate", "--data", tmp_path, env={"Rift__Database__Url": database.runtime})
    assert alone.status == 1
    assert rift("migrate", "--data", tmp_path, env=both).status == 0
    assert rift("user", "add", "ada@example.com", "--data", tmp_path, env=both).status == 0
    assert rift("audit", "checkpoint", "--data", tmp_path, env=both).status == 0
    listed = rift("audit", "ls", "--json", "--data", tmp_path, env=both).json
    assert [one["action"] for one in listed] == ["rift user add"]
    with psycopg.connect(database.runtime, autocommit=True) as runtime, pytest.raises(InsufficientPrivilege):
        runtime.execute("DELETE FROM ledger")
    assert rift("audit", "verify", "--data", tmp_path, env=both).status == 0
    told = rift("migrate", "--data", tmp_path, env={"Rift__Database__OwnerUrl": database.owner})
    assert told.status == 1
    assert "Rift:Database:OwnerUrl goes with Rift:Database:Url" in told.err
