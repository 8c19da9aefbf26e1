"""What is refused to people whose GitHub account is not connected, or was."""

from __future__ import annotations

from keel.refusal import Ask, Call, Refusal, kind

_NO_LOGIN = kind("no_github_login", "Your GitHub account is not connected to Rift.")
_LOGIN_OVER = kind("github_login_over", "GitHub does not take the login of {login} any more: {reason}.")
_DENIED = kind(
    "github_login_denied", "At GitHub it was answered that Rift may not act as you: no account is connected."
)
_EXPIRED = kind("github_login_expired", "Nobody typed the code at GitHub in time, so it is good for nothing now.")
_NONE = kind("no_github_account", "No GitHub account of yours is connected, so there is none to disconnect.")

LOGIN = Call("rift_github_login")


def no_login() -> Refusal:
    """Nobody has logged in yet."""
    return _NO_LOGIN(LOGIN)


def login_over(login: str, reason: str) -> Refusal:
    """Revoked there, unused for half a year, or its tokens were lost."""
    return _LOGIN_OVER(LOGIN, login=login, reason=reason)


def denied() -> Refusal:
    """The person said no, or somebody else who had the code."""
    return _DENIED(LOGIN)


def expired() -> Refusal:
    """The next call begins anew, with another code."""
    return _EXPIRED(LOGIN)


def none_connected() -> Refusal:
    """It was disconnected already."""
    return _NONE(Ask("yourself", "/app/connections shows what is connected"))
