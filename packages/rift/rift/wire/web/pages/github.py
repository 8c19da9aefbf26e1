"""GitHub's pages: making the App, coming back from there, connecting accounts, turning them on and off."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.responses import Response

from keel.buckets import Rate
from keel.refusal import Refusal
from rift.github import actions
from rift.github.model import Back, Connected, Install, Requested
from rift.logins import actions as logins
from rift.registration import actions as registration
from rift.registration.decide import BEGIN, CALLBACK, MADE, PERMISSIONS
from rift.wire.web.pages.organizations import place_of
from rift.wire.web.visit import Page, Visit

COMES_BACK = Rate(30, 60.0)
"""So often may one source come back: each time GitHub is asked, and a record is written."""
ONE = "/app/organizations/{org}/github"
NUMBER = re.compile(r"\d{1,18}", re.ASCII)


async def new_app(visit: Visit) -> Response | Refusal:
    """What GitHub will be asked for, and the button that leads there: the form goes to GitHub, with nothing of ours."""
    org = visit.asked("org") or None
    making = await registration.begin_making(visit.deps, visit.act("make github app", org=org), org)
    if isinstance(making, Refusal):
        return making
    there = urlsplit(making.url)
    return visit.render(
        "github_app.html", form_action=f"{there.scheme}://{there.netloc}", making=making, permissions=PERMISSIONS,
        hooks="hook_attributes" in making.manifest, host=there.netloc, org=org,
    )  # fmt: skip


async def made_app(visit: Visit) -> Response | Refusal:
    """Back from there, with the App made."""
    act = visit.act("keep github app")
    app = await registration.finish_making(visit.deps, act, visit.asked("code")[:200], visit.asked("state")[:200])
    return app if isinstance(app, Refusal) else visit.render("github_made.html", slug=app.slug, page=app.html_url)


async def came_back(visit: Visit) -> Response | Refusal:
    """Back from installing the App."""
    id = _number(visit.asked("installation_id"))
    back = Back(visit.asked("state")[:200], visit.asked("code")[:200], id, visit.asked("setup_action")[:20])
    done = await actions.came_back(visit.deps, visit.act("connect github", installation=id), back)
    if isinstance(done, Refusal):
        return done
    if isinstance(done, Requested):
        notice = "An owner at GitHub was asked to approve the App. Nothing is connected until they connect it here."
        return visit.go(f"/app/organizations/{done.org}", notice)
    return visit.go(f"/app/organizations/{done.account.org}", connected(done))


async def choose(visit: Visit) -> Response | Refusal:
    """Which account an organization may connect."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    found = await actions.found(visit.deps, visit.caller, place.name)
    return found if isinstance(found, Refusal) else visit.render("github_choose.html", place=place, found=found)


async def connect(visit: Visit) -> Response | Refusal:
    """Connect one where the App is, or go on to GitHub and install it."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    id = _number(visit.said("installation"))
    act = visit.act("connect github", org=place.name, installation=id)
    done: Connected | Install | Refusal
    if id is not None:
        done = await actions.connect_found(visit.deps, act, place.name, id)
    else:
        done = await actions.connect(visit.deps, act, place.name)
    if isinstance(done, Install):
        return visit.render("github_go.html", place=place, url=done.url)
    return done if isinstance(done, Refusal) else visit.go(f"/app/organizations/{place.org}", connected(done))


async def enable(visit: Visit) -> Response | Refusal:
    """Rift on for an account."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    account = visit.said("account")
    act = visit.act("enable github", org=place.name, account=account)
    done = await actions.enable(visit.deps, act, place.name, account)
    if isinstance(done, Refusal):
        return done
    return visit.go(f"/app/organizations/{place.org}", f"Rift is on for {done.account.login}.")


async def disable(visit: Visit) -> Response | Refusal:
    """Rift off for an account."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    id = _number(visit.said("installation"))
    act = visit.act("disable github", org=place.name, installation=id)
    done = await actions.disable(visit.deps, act, place.name, id or 0)
    if isinstance(done, Refusal):
        return done
    return visit.go(f"/app/organizations/{place.org}", f"Rift is off for {done.login}: no new box is made of it.")


async def disconnect(visit: Visit) -> Response | Refusal:
    """Forget the person's own GitHub account."""
    gone = await logins.disconnect(visit.deps, visit.act("disconnect github"))
    if isinstance(gone, Refusal):
        return gone
    there = "revoked at GitHub" if gone.revoked else (
        "deleted here, but GitHub could not be told: revoke the App in your settings there, under Applications"
    )  # fmt: skip
    return visit.go("/app/connections", f"{gone.login} is disconnected; its tokens are {there}.")


def connected(done: Connected) -> str:
    """What to say of an account that is connected."""
    said = f"{done.account.login} is connected{'' if done.new else ' already'}."
    return f"{said} Enable it, and its repositories give boxes." if done.account.state == "disabled" else said


def _number(text: str) -> int | None:
    return int(text) if NUMBER.fullmatch(text) else None


PAGES = (
    Page(BEGIN, new_app, admin=True),
    Page(MADE, made_app, admin=True, rate=COMES_BACK),
    Page(CALLBACK, came_back, rate=COMES_BACK),
    Page(ONE, choose, connect),
    Page(f"{ONE}/enable", post=enable),
    Page(f"{ONE}/disable", post=disable),
    Page("/app/connections/github/disconnect", post=disconnect),
)
