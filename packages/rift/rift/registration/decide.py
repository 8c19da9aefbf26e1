"""What the App asks for, and where it is made. Pure."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

CALLBACK = "/github/callback"
"""Where GitHub sends a browser back whose person has installed or authorized the App."""
MADE = "/github/app/made"
"""Where it sends the browser in which the App was made."""
BEGIN = "/github/app/new"
"""The page that sends a platform admin to GitHub with the manifest."""
HOOKS = "/hooks/github"
PERMISSIONS = {
    "metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read",
    "statuses": "read", "actions": "read", "members": "read",
}  # fmt: skip
"""What a box's work needs, and nothing else: no administration, no workflows, no secrets.

`members` (of an organization) tells who its owners are: only they connect it.
"""
EVENTS = ("push", "repository")
"""Those that are asked for; what happens to installations and authorizations is told to every App unasked."""
NAME_MOST = 34
"""The longest name of an App."""
_ORG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9_])?", re.ASCII)


def manifest(public: str, *, reachable: bool) -> dict[str, Any]:
    """The App as GitHub is asked to make it. Source: "Registering a GitHub App from a manifest".

    `public` is our address. Where GitHub cannot reach it, there are no webhooks: it takes no App that has some then.
    """
    asked: dict[str, Any] = {
        "name": f"Rift {urlsplit(public).hostname or ''}"[:NAME_MOST].strip(".- "),
        "url": public,
        "redirect_url": f"{public}{MADE}",
        "callback_urls": [f"{public}{CALLBACK}"],
        "request_oauth_on_install": True,
        "public": True,
        "default_permissions": PERMISSIONS,
    }
    if reachable:
        asked |= {"hook_attributes": {"url": f"{public}{HOOKS}", "active": True}, "default_events": list(EVENTS)}
    return asked


def is_organization(text: str) -> bool:
    """Whether this may be the login of an organization."""
    return bool(_ORG.fullmatch(text))


def new_app_url(url: str, org: str | None, state: str) -> str:
    """Where GitHub takes a manifest: of a person, or of an organization."""
    where = f"/organizations/{quote(org, safe='')}/settings/apps/new" if org else "/settings/apps/new"
    return f"{url}{where}?{urlencode({'state': state})}"


def begin_path(org: str | None) -> str:
    """The page of ours that sends there."""
    return f"{BEGIN}?{urlencode({'org': org})}" if org else BEGIN


def app_page(url: str, slug: str) -> str:
    """An App's own page at GitHub; an Enterprise Server has it elsewhere."""
    return f"{url}/{'apps' if url == 'https://github.com' else 'github-apps'}/{quote(slug, safe='')}"
