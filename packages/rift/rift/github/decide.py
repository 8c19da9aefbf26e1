"""What may be connected to what, and what is turned on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import Refusal
from rift.github import refusals
from rift.github.model import GitHubAccount
from rift.people.model import Membership


def decide_fit(place: Membership, login: str, kind: str, account: int, own: int) -> Refusal | None:
    """Whether an account of GitHub's fits an organization of ours.

    A personal one takes the person's `own` user alone, a team organizations alone.
    """
    user = kind == "User"
    fits = (user and account == own) if place.personal else not user
    return None if fits else refusals.wrong_kind(login, place.personal, user, place.name)


def decide_enable(place: Membership, accounts: Sequence[GitHubAccount], named: str) -> GitHubAccount | Refusal:
    """The account that is turned on. Of two with one name, the one that is there counts."""
    found = [one for one in accounts if one.login.lower() == named.strip().lower()]
    if not found:
        known = [one.login for one in accounts if one.removed_at is None]
        return refusals.unknown(named.strip(), place.name, known)
    account = min(found, key=lambda one: one.removed_at is not None)
    if account.removed_at is not None:
        return refusals.removed(account.login, place.name)
    return refusals.suspended(account.login) if account.suspended_at is not None else account
