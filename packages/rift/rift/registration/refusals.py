"""What is refused while there is no App, or GitHub cannot be asked."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, Retry, kind
from rift.people.model import OPERATOR

_NO_APP = kind("no_github_app", "This Rift has no GitHub App, so nothing of GitHub's can be connected to it.")
_APP_SET = kind("github_app_set", "The settings of this Rift name its GitHub App, {app}: none is made beside it.")
_MAKING_OVER = kind(
    "github_making_over",
    "What came back from GitHub belongs to no App that you have just begun to make here, or you made it already.",
)
_AWAY = kind("github_away", "GitHub could not be asked, or what it answered cannot be taken: {reason}.")
_NO_DEVICE_FLOW = kind(
    "github_no_device_flow", "Nobody can log in yet: the GitHub App {app} does not have its device flow enabled."
)
_BUSY = kind("github_busy", "GitHub wants to be asked less often, and answers again in {seconds} s.")


def no_app() -> Refusal:
    """Neither the settings nor a page of ours has one."""
    return _NO_APP(Ask(OPERATOR, "`rift github app-manifest` prints the link that makes one"))


def app_set(app: str) -> Refusal:
    """The settings win, so another would be good for nothing."""
    return _APP_SET(Ask(OPERATOR, "take `Rift:Github:AppId` and what goes with it out of the settings first"), app=app)


def making_over() -> Refusal:
    """Unknown, used, another's and expired are one."""
    return _MAKING_OVER(Ask("yourself", "`rift github app-manifest` prints the link to begin anew"))


def away(reason: str) -> Refusal:
    """It cannot be reached, failed, or answered what its documents do not say."""
    return _AWAY(Retry(30), Ask(OPERATOR, "whether `Rift:Github:Url` is right and reachable"), reason=reason)


def no_device_flow(app: str, page: str) -> Refusal:
    """GitHub lets no manifest enable it, so it is the one step that is easily forgotten."""
    return _NO_DEVICE_FLOW(
        Ask(OPERATOR, f"tick Enable Device Flow in the settings of the App, {page}, and save; then call again"), app=app
    )


def busy(seconds: int) -> Refusal:
    """A rate limit."""
    return _BUSY(Retry(seconds), seconds=seconds)
