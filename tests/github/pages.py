"""What a browser sees: sign in, authorize an App, answer a device login, install an App, make one from a manifest."""

from __future__ import annotations

import html
import json
import secrets
from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from tests.github import oauth
from tests.github.events import Events
from tests.github.model import App, Owner
from tests.github.world import Missing, World

COOKIE = "user_session"
MANIFEST_FOR = timedelta(hours=1)
NOT_FOUND = "Not Found"


def page(title: str, *parts: str, status: int = 200) -> Response:
    text = html.escape(title)
    body = "\n".join(parts)
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{text}</title>"
    return HTMLResponse(f"{head}<main><h1>{text}</h1>\n{body}</main></html>", status)


def form(action: str, *fields: str, buttons: dict[str, str], **hidden: str | None) -> str:
    """A form. `buttons`: the value of `decision`, and what stands on the button."""
    kept = [
        f'<input type=hidden name="{html.escape(n)}" value="{html.escape(v)}">'
        for n, v in hidden.items()
        if v is not None
    ]
    rows = [f'<button name=decision value="{value}">{html.escape(said)}</button>' for value, said in buttons.items()]
    return "\n".join([f'<form method=post action="{html.escape(action)}">', *kept, *fields, *rows, "</form>"])


class Pages:
    def __init__(self, world: World, events: Events) -> None:
        self.world = world
        self.events = events

    def visitor(self, request: Request) -> Owner | None:
        return self.world.sessions.get(request.cookies.get(COOKIE, ""))

    def _sign_in(self, request: Request) -> Response:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?{urlencode({'return_to': back})}", 302)

    async def login(self, request: Request) -> Response:
        given = await oauth.fields(request)
        if request.method == "GET":
            field = "<label>Username <input name=login autocomplete=username></label>"
            return page(
                "Sign in to GitHub",
                form("/login", field, buttons={"yes": "Sign in"}, return_to=given.get("return_to", "/")),
            )
        try:
            user = self.world.owner(given.get("login", ""))
        except Missing:
            return page("Incorrect username or password.", status=401)
        secret = secrets.token_urlsafe(24)
        self.world.sessions[secret] = user
        to = given.get("return_to", "/")
        answer = RedirectResponse(to if to.startswith("/") else "/", 303)
        answer.set_cookie(COOKIE, secret, httponly=True)
        return answer

    # Authorizing ----------------------------------------------------------------------------------------------------

    async def authorize(self, request: Request) -> Response:
        """Source: docs.github.com, "Using the web application flow to generate a user access token"."""
        user, given = self.visitor(request), await oauth.fields(request)
        if user is None:
            return self._sign_in(request)
        try:
            app = self.world.app_of_client(given.get("client_id"))
        except Missing:
            return PlainTextResponse(NOT_FOUND, 404)
        back = given.get("redirect_uri") or (app.callback_urls[0] if app.callback_urls else "")
        if not any(_within(back, known) for known in app.callback_urls):
            return page("Be careful!", "The redirect_uri is not associated with this application.", status=400)
        known = (app.id, user.id) in self.world.authorized
        if request.method == "GET" and not known:
            names = ("client_id", "state", "code_challenge")
            kept = {name: given.get(name) for name in names} | {"redirect_uri": back}
            return page(
                f"Authorize {app.name}",
                form("/login/oauth/authorize", buttons={"yes": f"Authorize {app.name}", "no": "Cancel"}, **kept),
            )
        state = {"state": given["state"]} if given.get("state") else {}
        if request.method == "POST" and given.get("decision") != "yes":
            told = {"error": "access_denied", "error_description": "The user has denied your application access."}
            return _to(back, told | state)
        with self.world.lock:
            code = oauth.new_code(self.world, app, user, back, given.get("code_challenge") or None)
        return _to(back, {"code": code} | state)

    async def device(self, request: Request) -> Response:
        user, given = self.visitor(request), await oauth.fields(request)
        if user is None:
            return self._sign_in(request)
        wanted = given.get("user_code", "").upper().strip()
        with self.world.lock:
            found = next((one for one in self.world.devices.values() if one.user_code == wanted), None)
            if request.method == "GET" or not wanted:
                field = "<label>Code <input name=user_code></label>"
                return page("Device activation", form("/login/device", field, buttons={"continue": "Continue"}))
            if found is None or found.expires_at <= self.world.now():
                return page("Device activation", "Uh oh, we couldn't find anything! Check the code.", status=404)
            if given.get("decision") == "continue":
                buttons = {"yes": f"Authorize {found.app.name}", "no": "Cancel"}
                return page(f"Authorize {found.app.name}", form("/login/device", buttons=buttons, user_code=wanted))
            found.answer = user if given.get("decision") == "yes" else "denied"
        done = "Congratulations, you're all set!" if found.answer is user else "The authorization was denied."
        return page(done)

    # Installing -----------------------------------------------------------------------------------------------------

    async def install(self, request: Request) -> Response:
        """Source: docs.github.com, "About the setup URL", "Sharing your GitHub App" (state)."""
        user, given = self.visitor(request), await oauth.fields(request)
        app = next((one for one in self.world.apps.values() if one.slug == request.path_params["slug"]), None)
        if app is None:
            return PlainTextResponse(NOT_FOUND, 404)
        if user is None:
            return self._sign_in(request)
        where = f"/apps/{app.slug}/installations/new"
        if request.method == "GET":
            return self._ask_to_install(app, user, where, given.get("state"))
        account = self.world.owners.get(int(given.get("account", "0")))
        if account is None or not (account is user or user.id in account.members):
            return PlainTextResponse(NOT_FOUND, 404)
        state = {"state": given["state"]} if given.get("state") else {}
        if not self.world.administers(user, account):
            return self._back(app, user, {"setup_action": "request"} | state)
        chosen = None
        if given.get("repository_selection") == "selected":
            sent = parse_qs((await request.body()).decode()).get("repository_ids", [])
            chosen = {int(number) for number in sent}
        with self.world.lock:
            update = self.world.installation_of(app, account) is not None
            one = self.events.install(app, account, chosen, user)
        told = {"installation_id": str(one.id), "setup_action": "update" if update else "install"} | state
        if update and not app.setup_on_update and not app.request_oauth_on_install:
            return page("Okay, the installation was updated.")
        return self._back(app, user, told)

    def _ask_to_install(self, app: App, user: Owner, where: str, state: str | None) -> Response:
        accounts = [one for one in self.world.owners.values() if one is user or user.id in one.members]
        if not app.public:  # a private App goes into its owner's account alone
            accounts = [one for one in accounts if one is app.owner]
        fields = [
            f"<label><input type=radio name=account value={one.id}> {html.escape(one.login)}</label>"
            for one in accounts
        ]
        kinds = {"all checked": "All repositories", "selected": "Only select repositories"}
        fields += [
            f"<label><input type=radio name=repository_selection value={kind}> {said}</label>"
            for kind, said in kinds.items()
        ]
        fields += [
            f"<label><input type=checkbox name=repository_ids value={repo.id}> {html.escape(repo.full)}</label>"
            for repo in list(self.world.repos.values())[:100] if repo.owner in accounts
        ]  # fmt: skip
        return page(f"Install {app.name}", form(where, *fields, buttons={"yes": "Install & Authorize"}, state=state))

    def _back(self, app: App, user: Owner, told: dict[str, str]) -> Response:
        if app.request_oauth_on_install and app.callback_urls:
            with self.world.lock:
                code = oauth.new_code(self.world, app, user, app.callback_urls[0])
            return _to(app.callback_urls[0], {"code": code} | told)
        return _to(app.setup_url, told) if app.setup_url else page("Okay, the App was installed.")

    # Making an App --------------------------------------------------------------------------------------------------

    async def new_app(self, request: Request) -> Response:
        """Source: docs.github.com, "Registering a GitHub App from a manifest"."""
        user, given = self.visitor(request), await oauth.fields(request)
        organization = request.path_params.get("org", "")
        try:
            owner = self.world.owner(organization) if organization else user
        except Missing:
            return PlainTextResponse(NOT_FOUND, 404)
        try:
            manifest = json.loads(given.get("manifest", ""))
        except ValueError:
            return page("Invalid GitHub App configuration", "The manifest is no JSON.", status=422)
        wrong = [name for name in ("url",) if not manifest.get(name)]
        if "hook_attributes" in manifest and not manifest["hook_attributes"].get("url"):
            wrong.append("hook_attributes.url")
        if wrong:
            return page("Invalid GitHub App configuration", f"Missing: {', '.join(wrong)}", status=422)
        where = f"/organizations/{organization}/settings/apps/new" if organization else "/settings/apps/new"
        if given.get("decision") != "yes" or user is None or owner is None:
            # Who is not signed in comes back to this page with the form that was sent.
            if user is None or owner is None:
                return self._sign_in(request)
            name = f'<label>Name <input name=name value="{html.escape(manifest.get("name", ""))}"></label>'
            kept = {"manifest": json.dumps(manifest), "state": given.get("state") or request.query_params.get("state")}
            return page("Create GitHub App", form(where, name, buttons={"yes": "Create GitHub App"}, **kept))
        if not self.world.administers(user, owner):
            return PlainTextResponse(NOT_FOUND, 404)
        with self.world.lock:
            app = from_manifest(self.world, owner, manifest, given.get("name") or manifest.get("name") or "App")
            code = secrets.token_hex(20)
            self.world.manifests[code] = app, self.world.now() + MANIFEST_FOR
        state = {"state": given["state"]} if given.get("state") else {}
        back = manifest.get("redirect_url")
        return _to(back, {"code": code} | state) if back else page("The App was made", code)


def from_manifest(world: World, owner: Owner, manifest: dict[str, object], name: str) -> App:
    """The App that a manifest describes. No manifest can turn the device flow on: its settings page does."""
    made = world.add_app(owner, name)
    hook, urls = manifest.get("hook_attributes") or {}, manifest.get("callback_urls") or ()
    assert isinstance(hook, dict)
    assert isinstance(urls, list | tuple)
    made.webhook_url = str(hook["url"]) if hook.get("url") and hook.get("active", True) else None
    made.callback_urls = tuple(map(str, urls))
    made.external_url = str(manifest["url"])
    made.setup_url = str(manifest["setup_url"]) if manifest.get("setup_url") else None
    made.setup_on_update = manifest.get("setup_on_update") is True
    made.request_oauth_on_install = manifest.get("request_oauth_on_install") is True
    made.public = manifest.get("public") is True
    permissions, events = manifest.get("default_permissions") or {}, manifest.get("default_events") or ()
    assert isinstance(permissions, dict)
    assert isinstance(events, list | tuple)
    made.permissions = {"metadata": "read", **permissions}
    made.events = tuple(map(str, events))
    return made


def _within(address: str, known: str) -> bool:
    """Whether a redirect address is the callback or below it, on the same host. Loopback's port is free."""
    one, other = urlsplit(address), urlsplit(known)
    same = one.scheme == other.scheme and one.hostname == other.hostname
    port = one.port == other.port or one.hostname in ("127.0.0.1", "::1")
    return same and port and (one.path == other.path or one.path.startswith(other.path.rstrip("/") + "/"))


def _to(address: str, told: dict[str, str]) -> Response:
    return RedirectResponse(f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(told)}", 302)
