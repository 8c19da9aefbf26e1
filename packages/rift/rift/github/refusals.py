"""What is refused about accounts of GitHub's."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from keel.refusal import Ask, Call, Refusal, kind
from rift.names import PERSONAL

_OVER = kind(
    "github_connect_over",
    "What came back from GitHub belongs to no connection that you have just begun here, or it was used already.",
)
_NOT_YOURS = kind(
    "github_not_yours", "Your GitHub user {login} does not reach this installation of the App, so it is not connected."
)
_NOT_OWNER = kind(
    "github_not_owner", "Only an owner of {account} at GitHub connects it, and your GitHub user {login} is none."
)
_WRONG_KIND = kind("github_wrong_kind", "{account} is {what}, and {org} connects {wanted}.")
_TAKEN = kind("github_account_taken", "{account} is connected to another organization of this Rift.")
_UNKNOWN = kind("github_account_unknown", "No GitHub account {account} is connected to {org}. Those that are: {known}.")
_SUSPENDED = kind("github_account_suspended", "The App is suspended at {account}, so nothing of it can be read.")
_REMOVED = kind("github_account_removed", "The App was removed from {account} at GitHub.")


def connect_over(org: str = PERSONAL) -> Refusal:
    """Unknown, used, another person's and expired are one."""
    return _OVER(Call("rift_github_connect", {"org": org}))


def not_yours(login: str, org: str) -> Refusal:
    """An installation's number in an address proves nothing."""
    return _NOT_YOURS(Call("rift_github_connect", {"org": org}), login=login)


def not_owner(account: str, login: str, org: str) -> Refusal:
    """Who may read one repository of an organization is not who gives Rift all of them."""
    call = Call("rift_github_connect", {"org": org})
    return _NOT_OWNER(Ask(f"an owner of {account} at GitHub", call.text), account=account, login=login)


def wrong_kind(account: str, personal: bool, theirs: bool, org: str) -> Refusal:
    """`personal`: whether ours is; `theirs`: whether the account is a user."""
    if personal:
        what = "another GitHub user" if theirs else "a GitHub organization"
        wanted = "your own GitHub user alone"
        mend = (
            Call("rift_github_connect", {"org": "<a team's name>"})
            if not theirs
            else Call("rift_github_connect", {"org": PERSONAL})
        )
    else:
        what, wanted = "a GitHub user", "GitHub organizations alone"
        mend = Call("rift_github_connect", {"org": PERSONAL})
    return _WRONG_KIND(mend, account=account, what=what, wanted=wanted, org=org)


def taken(account: str) -> Refusal:
    """Which one is not said."""
    return _TAKEN(
        Ask(f"an owner of {account} at GitHub", "removing the App there and installing it anew ends that connection"),
        account=account,
    )


def unknown(account: str, org: str, known: Sequence[str]) -> Refusal:
    """Not connected, or to another organization."""
    near = difflib.get_close_matches(account.casefold(), [one.casefold() for one in known], 1)
    meant = [one for one in known if one.casefold() in near]
    return _UNKNOWN(
        *(Call("rift_github_enable", {"org": org, "account": one}) for one in meant[:1]),
        Call("rift_github_connect", {"org": org}),
        account=account,
        org=org,
        known=", ".join(known) or "none",
    )


def suspended(account: str) -> Refusal:
    """By an owner of the account, or by GitHub."""
    page = "its settings there, Applications, have Unsuspend"
    return _SUSPENDED(Ask(f"an owner of {account} at GitHub", page), account=account)


def removed(account: str, org: str) -> Refusal:
    """It can be installed again."""
    return _REMOVED(Call("rift_github_connect", {"org": org}), account=account)
