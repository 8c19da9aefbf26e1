"""Signing in through an App: tokens by the device flow, by a browser's code, by a refresh token.

Source: docs.github.com, "Generating a user access token for a GitHub App", "Refreshing user access tokens". Errors of
these endpoints are answered with 200, as there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.github.call import basic
from tests.github.model import App, Code, DeviceLogin, Owner, Token
from tests.github.world import REFRESH_FOR, USER_FOR, Missing, World

DEVICE_FOR = timedelta(minutes=15)
CODE_FOR = timedelta(minutes=10)
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
LETTERS = "BCDFGHJKLMNPQRSTVWXZ0123456789"
HELP = "https://docs.github.com/apps/oauth"
ERRORS = {
    "authorization_pending": "The authorization request is still pending.",
    "slow_down": "Too many requests have been made in the same timeframe.",
    "expired_token": "The `device_code` has expired.",
    "access_denied": "The authorization request was denied.",
    "incorrect_device_code": "The device_code provided is not valid.",
    "device_flow_disabled": "Device Flow must be explicitly enabled for this App",
    "incorrect_client_credentials": "The client_id and/or client_secret passed are incorrect.",
    "bad_verification_code": "The code passed is incorrect or expired.",
    "redirect_uri_mismatch": "The redirect_uri MUST match the registered callback URL for this application.",
    "bad_refresh_token": "The refresh token passed is incorrect or expired.",
    "unsupported_grant_type": "The grant_type is not supported.",
}


async def fields(request: Request) -> dict[str, str]:
    """What was sent: a form, or JSON, or the query."""
    raw = await request.body()
    if request.headers.get("content-type", "").startswith("application/json"):
        told = json.loads(raw or b"{}")
        return {name: str(value) for name, value in told.items()}
    return dict(request.query_params) | dict(parse_qsl(raw.decode()))


def answer(request: Request, told: Mapping[str, Any], status: int = 200) -> Response:
    """A form, as GitHub answers who asks for nothing else; JSON to who does."""
    if "json" in request.headers.get("accept", ""):
        return JSONResponse(dict(told), status)
    return Response(urlencode(told), status, media_type="application/x-www-form-urlencoded; charset=utf-8")


def error(code: str, **more: Any) -> dict[str, Any]:
    return {"error": code, "error_description": ERRORS[code], "error_uri": f"{HELP}#{code}", **more}


def begin(world: World, given: Mapping[str, str], every: int) -> tuple[int, dict[str, Any]]:
    """A device login for an App: status and body."""
    try:
        app = world.app_of_client(given.get("client_id"))
    except Missing:
        return 404, {"error": "Not Found"}
    if not app.device_flow:
        return 400, error("device_flow_disabled")
    user_code = "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(2))
    made = DeviceLogin(secrets.token_hex(20), user_code, app, world.now() + DEVICE_FOR, every)
    world.devices[made.device_code] = made
    return 200, {
        "device_code": made.device_code, "user_code": user_code, "verification_uri": f"{world.url}/login/device",
        "expires_in": int(DEVICE_FOR.total_seconds()), "interval": every,
    }  # fmt: skip


def tokens(world: World, given: Mapping[str, str]) -> dict[str, Any]:
    """What `/login/oauth/access_token` answers."""
    try:
        app = world.app_of_client(given.get("client_id"))
    except Missing:
        return error("incorrect_client_credentials")
    grant = given.get("grant_type", "")
    if grant == DEVICE_GRANT:
        return _by_device(world, app, given)
    if grant == "refresh_token":
        return _by_refresh(world, app, given)
    if grant not in ("", "authorization_code"):
        return error("unsupported_grant_type")
    return _by_code(world, app, given)


def _by_device(world: World, app: App, given: Mapping[str, str]) -> dict[str, Any]:
    if not app.device_flow:
        return error("device_flow_disabled")
    login, now = world.devices.get(given.get("device_code", "")), world.now()
    if login is None or login.app is not app:
        return error("incorrect_device_code")
    if login.expires_at <= now:
        return error("expired_token")
    early = login.asked_at is not None and now < login.asked_at + timedelta(seconds=login.every)
    login.asked_at = now
    if early:
        login.every += 5
        return error("slow_down", interval=login.every)
    if login.answer is None:
        return error("authorization_pending")
    del world.devices[login.device_code]
    if isinstance(login.answer, Owner):
        return _given(world, world.new_user_token(app, login.answer, by_device=True))
    return error("access_denied")


def _by_refresh(world: World, app: App, given: Mapping[str, str]) -> dict[str, Any]:
    """The refresh token and the access token beside it are used up."""
    refresh = given.get("refresh_token", "")
    old = next((one for one in world.tokens.values() if one.refresh and one.refresh == refresh), None)
    if old is not None and not old.by_device and given.get("client_secret") != app.client_secret:
        return error("incorrect_client_credentials")
    good = old is not None and old.app is app and old.refresh_expires_at and old.refresh_expires_at > world.now()
    if old is None or old.user is None or not good:
        return error("bad_refresh_token")
    del world.tokens[old.value]
    return _given(world, world.new_user_token(app, old.user, old.by_device))


def _by_code(world: World, app: App, given: Mapping[str, str]) -> dict[str, Any]:
    if given.get("client_secret") != app.client_secret:
        return error("incorrect_client_credentials")
    code = world.codes.pop(given.get("code", ""), None)
    if code is None or code.app is not app or code.expires_at <= world.now():
        return error("bad_verification_code")
    if given.get("redirect_uri") and given["redirect_uri"] not in (code.redirect_uri, *app.callback_urls):
        return error("redirect_uri_mismatch")
    if code.challenge is not None:
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != code.challenge:
            return error("bad_verification_code")
    return _given(world, world.new_user_token(app, code.user))


def _given(world: World, token: Token) -> dict[str, Any]:
    told: dict[str, Any] = {"access_token": token.value, "scope": "", "token_type": "bearer"}
    if token.refresh:
        told |= {
            "expires_in": int(USER_FOR.total_seconds()), "refresh_token": token.refresh,
            "refresh_token_expires_in": int(REFRESH_FOR.total_seconds()),
        }  # fmt: skip
    return told


def new_code(world: World, app: App, user: Owner, redirect_uri: str | None, challenge: str | None = None) -> str:
    """A code for a browser to be sent back with. The user has authorized the App with it."""
    made = Code(secrets.token_hex(10), app, user, world.now() + CODE_FOR, redirect_uri, challenge)
    world.codes[made.value] = made
    world.authorized.add((app.id, user.id))
    return made.value


def client(world: World, request: Request, given: dict[str, str]) -> dict[str, str]:
    """The client's id and secret may come as Basic authorization too."""
    name, secret = basic(request.headers.get("authorization", ""))
    return given | ({"client_id": name, "client_secret": secret} if name else {})
