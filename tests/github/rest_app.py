"""The API for Apps and for people: manifests, installations and their tokens, who somebody is and what they reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.github import shapes
from tests.github.call import INACCESSIBLE, Answer, Call, Refused, basic
from tests.github.events import Events
from tests.github.model import App, Installation
from tests.github.shapes import stamp
from tests.github.world import Missing

Handler = Callable[[Call, Events], Answer]
ROUTES: list[tuple[str, str, Handler]] = []


def route(method: str, template: str) -> Callable[[Handler], Handler]:
    """The handler answers `method` at a path of GitHub's document."""

    def note(handler: Handler) -> Handler:
        ROUTES.append((method, template, handler))
        return handler

    return note


# The App ------------------------------------------------------------------------------------------------------------


@route("POST", "/app-manifests/{code}/conversions")
def convert(call: Call, events: Events) -> Answer:
    app, until = call.world.manifests.pop(call.named["code"], (None, None))
    if app is None or until is None or until < call.world.now():
        raise Refused(404, "Not Found")
    told = shapes.app(call.world, app) | {
        "client_secret": app.client_secret, "webhook_secret": app.webhook_secret, "pem": app.pem,
    }  # fmt: skip
    return Answer(201, told)


@route("GET", "/app")
def whoami(call: Call, events: Events) -> Answer:
    return Answer(body=shapes.app(call.world, call.as_app()))


@route("GET", "/app/installations")
def installations(call: Call, events: Events) -> Answer:
    app = call.as_app()
    part, links = call.page([one for one in call.world.installations.values() if one.app is app])
    return Answer(body=[shapes.installation(call.world, one) for one in part], headers=links)


def _own(call: Call) -> Installation:
    app: App = call.as_app()
    found = call.world.installations.get(call.number("installation_id"))
    if found is None or found.app is not app:
        raise Refused(404, "Not Found")
    return found


@route("GET", "/app/installations/{installation_id}")
def installation(call: Call, events: Events) -> Answer:
    return Answer(body=shapes.installation(call.world, _own(call)))


@route("DELETE", "/app/installations/{installation_id}")
def uninstall(call: Call, events: Events) -> Answer:
    one = _own(call)
    events.uninstall(one, one.app.owner)
    return Answer(204)


@route("PUT", "/app/installations/{installation_id}/suspended")
def suspend(call: Call, events: Events) -> Answer:
    one = _own(call)
    events.suspend(one, one.app.owner)
    return Answer(204)


@route("DELETE", "/app/installations/{installation_id}/suspended")
def unsuspend(call: Call, events: Events) -> Answer:
    one = _own(call)
    events.unsuspend(one, one.app.owner)
    return Answer(204)


@route("POST", "/app/installations/{installation_id}/access_tokens")
def access_tokens(call: Call, events: Events) -> Answer:
    one = _own(call)
    if one.suspended_at:
        raise Refused(403, "This installation has been suspended")
    only = _scope(call, one)
    asked = call.body.get("permissions")
    if asked is not None and not all(one.permissions.get(name) in (level, "write") for name, level in asked.items()):
        raise Refused(422, "The permissions requested are not granted to this installation.")
    token = call.world.new_installation_token(one, only, asked)
    told: dict[str, Any] = {
        "token": token.value, "expires_at": stamp(token.expires_at), "permissions": token.permissions,
        "repository_selection": "selected" if only is not None else one.selection,
    }  # fmt: skip
    if only is not None:
        told["repositories"] = [shapes.repository(call.world, call.world.repos[number]) for number in sorted(only)]
    return Answer(201, told)


def _scope(call: Call, one: Installation) -> frozenset[int] | None:
    """The repositories that a token is asked for alone, by their ids or short names."""
    ids, names = call.body.get("repository_ids"), call.body.get("repositories")
    if ids is None and names is None:
        return None
    covered = call.world.repositories(one)
    found = {repo.id for repo in covered if repo.id in (ids or ()) or repo.name in (names or ())}
    if len(found) < len(set(ids or ())) + len(set(names or ())):
        raise Refused(422, "There is at least one repository that does not exist or is not accessible to the parent "
                           "installation.")  # fmt: skip
    return frozenset(found)


@route("GET", "/installation/repositories")
def repositories(call: Call, events: Events) -> Answer:
    token = call.bearer()
    if token.installation is None:
        raise Refused(403, "You must authenticate with an installation access token in order to list repositories for "
                           "an installation.")  # fmt: skip
    covered = call.world.repositories(token.installation, token)
    part, links = call.page(covered)
    told = shapes.listed("repositories", (shapes.repository(call.world, repo, "write") for repo in part), len(covered))
    chosen = "selected" if token.repositories is not None else token.installation.selection
    return Answer(body=told | {"repository_selection": chosen}, headers=links)


@route("DELETE", "/installation/token")
def forget_token(call: Call, events: Events) -> Answer:
    token = call.bearer()
    if token.installation is None:
        raise Refused(403, INACCESSIBLE)
    call.world.tokens.pop(token.value, None)
    return Answer(204)


@route("GET", "/repos/{owner}/{repo}/installation")
def installation_of_repository(call: Call, events: Events) -> Answer:
    app = call.as_app()
    try:
        repo = call.world.repo(f"{call.named['owner']}/{call.named['repo']}")
    except Missing:
        raise Refused(404, "Not Found") from None
    found = call.world.installation_of(app, repo.owner)
    if found is None or not call.world.covers(found, repo):
        raise Refused(404, "Not Found")
    return Answer(body=shapes.installation(call.world, found))


def _of_account(call: Call, name: str, kind: str) -> Answer:
    app = call.as_app()
    try:
        owner = call.world.owner(call.named[name])
    except Missing:
        raise Refused(404, "Not Found") from None
    found = call.world.installation_of(app, owner)
    if found is None or owner.kind != kind:
        raise Refused(404, "Not Found")
    return Answer(body=shapes.installation(call.world, found))


@route("GET", "/orgs/{org}/installation")
def installation_of_organization(call: Call, events: Events) -> Answer:
    return _of_account(call, "org", "Organization")


@route("GET", "/users/{username}/installation")
def installation_of_user(call: Call, events: Events) -> Answer:
    return _of_account(call, "username", "User")


@route("GET", "/orgs/{org}/memberships/{username}")
def membership(call: Call, events: Events) -> Answer:
    """An installation reads it where the App may read members, a user where they are one themselves."""
    token, world = call.bearer(), call.world
    try:
        org, user = world.owner(call.named["org"]), world.owner(call.named["username"])
    except Missing:
        raise Refused(404, "Not Found") from None
    installation = token.installation or world.installation_of(token.app, org)
    given = (token.permissions if token.installation else installation.permissions) if installation else {}
    inside = token.user is None or token.user.id in org.members
    if installation is None or installation.account is not org or not given.get("members") or not inside:
        raise Refused(403, INACCESSIBLE)
    role = org.members.get(user.id)
    if role is None:
        raise Refused(404, "Not Found")
    where = f"{world.url}{shapes.API}/orgs/{org.login}"
    told = {
        "url": f"{where}/memberships/{user.login}", "state": "active", "role": role, "organization_url": where,
        "user": shapes.account(world, user), "organization": shapes.organization(world, org),
    }  # fmt: skip
    return Answer(body=told)


# People -------------------------------------------------------------------------------------------------------------


@route("GET", "/user")
def user(call: Call, events: Events) -> Answer:
    return Answer(body=shapes.whole_user(call.world, call.as_user()))


@route("GET", "/user/installations")
def user_installations(call: Call, events: Events) -> Answer:
    call.as_user()
    found = list(call.world.installations_of(call.bearer()))
    part, links = call.page(found)
    shown = (shapes.installation(call.world, one) for one in part)
    return Answer(body=shapes.listed("installations", shown, len(found)), headers=links)


@route("GET", "/user/installations/{installation_id}/repositories")
def user_repositories(call: Call, events: Events) -> Answer:
    user = call.as_user()
    found = {one.id: one for one in call.world.installations_of(call.bearer())}
    one = found.get(call.number("installation_id"))
    if one is None:
        raise Refused(404, "Not Found")
    if one.suspended_at:
        raise Refused(403, "This installation has been suspended")
    mine = [repo for repo in call.world.repositories(one) if call.world.right(user, repo) != "none"]
    part, links = call.page(mine)
    shown = (shapes.repository(call.world, repo, call.world.right(user, repo)) for repo in part)
    return Answer(body=shapes.listed("repositories", shown, len(mine)), headers=links)


@route("DELETE", "/applications/{client_id}/grant")
def revoke(call: Call, events: Events) -> Answer:
    app = _client(call)
    value = call.words("access_token")
    token = call.world.token(value)
    if token is None or token.app is not app or token.user is None:
        raise Refused(404, "Not Found")
    events.revoke(app, token.user)
    return Answer(204)


@route("POST", "/applications/{client_id}/token")
def check_token(call: Call, events: Events) -> Answer:
    app = _client(call)
    token = call.world.token(call.words("access_token"))
    if token is None or token.app is not app or token.user is None:
        raise Refused(404, "Not Found")
    told = {
        "id": app.id, "url": f"{call.world.url}{shapes.API}/authorizations/{app.id}", "token": token.value,
        "app": {"client_id": app.client_id, "name": app.name, "url": app.html_url}, "scopes": [], "note": None,
        "token_last_eight": token.value[-8:], "hashed_token": None, "note_url": None, "fingerprint": None,
        "created_at": stamp(call.world.now()), "updated_at": stamp(call.world.now()),
        "expires_at": stamp(token.expires_at), "user": shapes.account(call.world, token.user),
    }  # fmt: skip
    return Answer(body=told)


def _client(call: Call) -> App:
    """The App whose id and secret came as Basic authorization."""
    name, secret = basic(call.authorization)
    try:
        app = call.world.app_of_client(name)
    except Missing:
        app = None
    if app is None or secret != app.client_secret or call.named["client_id"] != app.client_id:
        raise Refused(404, "Not Found")
    return app


# Limits -------------------------------------------------------------------------------------------------------------


@route("GET", "/meta")
def meta(call: Call, events: Events) -> Answer:
    return Answer(body={"verifiable_password_authentication": True})
