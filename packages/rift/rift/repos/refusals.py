"""What a call about a repository is refused with."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import Ask, Call, Refusal, Retry, kind
from rift.names import PERSONAL, WARM_MOST
from rift.people.model import OPERATOR
from rift.repos.model import Repo, Watch

_NO_SUCH_REPOSITORY = kind("no_such_repository", "No repository {repo} is in your organizations.{others}")
_WHICH_REPOSITORY = kind("which_repository", "{repo} can be any of {repos}. Name it as OWNER/NAME.")
_NO_SUCH_REF = kind("no_such_ref", "{repo} has no branch {ref}.{others}")
_NOT_WATCHED = kind("ref_not_watched", "{ref} of {repo} is not watched, so there are no boxes at its head.{others}")
_NO_HEAD = kind("watched_ref_gone", "{ref} of {repo} is watched, but the repository has no such branch now.{why}")
_FAILED_HEAD = kind("head_failed", "No box can be made at the head of {ref} of {repo} ({commit}): {failure}")
_WARM = kind("warm_out_of_range", "warm is how many warm boxes to keep, 0 to {most}; {warm} is not.")

_NO_SUCH_ADDED = kind("no_such_added_repository", "This Rift has no repository {repo}.")


def no_such_repository(repo: str, close: Sequence[str]) -> Refusal:
    """Not there and not theirs are one refusal with one text; `close` are names of their own."""
    others = f" Close to it: {', '.join(close)}." if close else ""
    return _NO_SUCH_REPOSITORY(Call("rift_repos", {"org": PERSONAL}), repo=repo, others=others)


def which_repository(repo: str, repos: Sequence[Repo]) -> Refusal:
    """A short name that several repositories have."""
    names = ", ".join(one.full for one in repos)
    return _WHICH_REPOSITORY(Call("rift_repos", {"org": PERSONAL}), repo=repo, repos=names)


def no_such_ref(repo: Repo, ref: str, warm: int, close: Sequence[str], branches: Sequence[str]) -> Refusal:
    """No such branch at the origin. `close` are the likely ones, `branches` a few of those there are."""
    if close:
        others = f" Close to it: {', '.join(close)}."
    elif branches:
        others = f" It has {', '.join(branches)}."
    else:
        others = f" It has no branches yet.{_unread(repo)}"
    calls = [Call("rift_watch", {"repo": repo.full, "ref": one, "warm": warm}) for one in (close or branches)[:3]]
    push = Ask("the user", f"push the branch {ref} to the origin of {repo.full}, then call again")
    return _NO_SUCH_REF(*calls, push, repo=repo.full, ref=ref, others=others)


def not_watched(repo: Repo, ref: str, admin: bool, org: str, watched: Sequence[str]) -> Refusal:
    """Names the rift_watch to call, or to ask an admin for (contract: Errors)."""
    others = f" Watched: {', '.join(watched)}." if watched else " No ref of it is watched."
    watch = Call("rift_watch", {"repo": repo.full, "ref": ref, "warm": 1})
    mend = watch if admin else Ask(f"an admin of {org}", watch.text)
    return _NOT_WATCHED(mend, repo=repo.full, ref=ref, others=others)


def unwatch_unwatched(repo: Repo, ref: str, watched: Sequence[str]) -> Refusal:
    """rift_unwatch on a ref that is not watched."""
    others = f" Watched: {', '.join(watched)}." if watched else " No ref of it is watched."
    calls = [Call("rift_unwatch", {"repo": repo.full, "ref": one}) for one in watched[:3]]
    return _NOT_WATCHED(*calls or [Call("rift_repos", {"org": PERSONAL})], repo=repo.full, ref=ref, others=others)


_READING = kind("repository_being_read", "{repo} is being read for the first time, which takes longer than a call may.")
_NOT_ENABLED = kind("repository_not_enabled", "Rift is not on for {login} at GitHub, whose {repo} is.")
_SUSPENDED = kind("repository_suspended", "{login} has the App suspended at GitHub, so {repo} cannot be reached.")
_REMOVED = kind("repository_removed", "{login} does not have the App at GitHub any more, so {repo} cannot be reached.")
_UNCOVERED = kind("repository_uncovered", "The App does not cover {repo} any more: {login} took it off, or it is gone.")


def being_read(repo: Repo, ref: str, warm: int) -> Refusal:
    """A large repository's first watch: reading goes on, and the same call finds it done."""
    return _READING(Retry(20), Call("rift_watch", {"repo": repo.full, "ref": ref, "warm": warm}), repo=repo.full)


def not_enabled(repo: Repo, admin: bool, org: str) -> Refusal:
    """An account that was connected, or disabled since."""
    call = Call("rift_github_enable", {"org": org, "account": repo.login})
    mend = call if admin else Ask(f"an admin of {org}", call.text)
    return _NOT_ENABLED(mend, repo=repo.full, login=repo.login)


def account_suspended(repo: Repo) -> Refusal:
    """Suspended at GitHub, by the account or by GitHub."""
    mend = Ask(f"an owner of {repo.login} at GitHub", "unsuspend the App in the account's settings there")
    return _SUSPENDED(mend, repo=repo.full, login=repo.login)


def account_removed(repo: Repo, admin: bool, org: str) -> Refusal:
    """Uninstalled at GitHub, or disconnected here."""
    call = Call("rift_github_connect", {"org": org})
    mend = call if admin else Ask(f"an admin of {org}", call.text)
    return _REMOVED(mend, repo=repo.full, login=repo.login)


def uncovered(repo: Repo, org: str) -> Refusal:
    """Taken off the App's list, made somebody else's, or deleted."""
    mend = Ask(f"an owner of {repo.login} at GitHub", f"give the App access to {repo.full}, if it is there")
    return _UNCOVERED(mend, Call("rift_repos", {"org": org}), repo=repo.full, login=repo.login)


def no_head(repo: Repo, ref: str, admin: bool, org: str) -> Refusal:
    """Watched, but the branch is not there (any more)."""
    unwatch = Call("rift_unwatch", {"repo": repo.full, "ref": ref})
    return _NO_HEAD(
        Ask("the user", f"push the branch {ref} to the origin of {repo.full}; Rift sees it within {_seen(repo)}"),
        unwatch if admin else Ask(f"an admin of {org}", unwatch.text),
        repo=repo.full,
        ref=ref,
        why=_unread(repo),
    )


def failed_head(repo: Repo, watch: Watch, admin: bool, org: str, seconds: float | None) -> Refusal:
    """The last failure at the head, whole. It is tried again when the ref is watched again, or in so many seconds:
    None where it would fail as it did.
    """
    again = Call("rift_watch", {"repo": repo.full, "ref": watch.ref, "warm": watch.warm})
    return _FAILED_HEAD(
        again if admin else Ask(f"an admin of {org}", f"{again.text}, which tries again"),
        Ask("the user", f"push a commit that mends it to {watch.ref}"),
        *([] if seconds is None else [Retry(seconds)]),
        note=f"boxes of {repo.full} at {watch.ref} cannot be made: {watch.why}",
        repo=repo.full,
        ref=watch.ref,
        commit=(watch.head or "")[:12],
        failure=watch.failure,
    )


def warm_out_of_range(repo: str, ref: str, warm: int) -> Refusal:
    """More warm boxes than anybody may keep, or fewer than none."""
    nearest = max(0, min(warm, WARM_MOST))
    return _WARM(Call("rift_watch", {"repo": repo, "ref": ref, "warm": nearest}), most=WARM_MOST, warm=warm)


_TOO_WARM = kind(
    "warm_limit",
    "{warm} warm boxes at {ref} and {others} at the other watched refs are more than an organization may have, "
    "{most}, so nothing was changed.",
)


def too_warm(repo: str, ref: str, warm: int, others: int, most: int) -> Refusal:
    """The pools of an organization together ask for more boxes than it may have."""
    return _TOO_WARM(
        Call("rift_watch", {"repo": repo, "ref": ref, "warm": max(0, most - others)}),
        Call("rift_repos", {"org": PERSONAL}),
        Ask(OPERATOR, f"a Rift:Boxes:PerOrganization above {most}, if so many are meant"),
        ref=ref,
        warm=warm,
        others=others,
        most=most,
    )


_BAD_HOST = kind(
    "repo_host",
    "{host} is not a host for an allow list: a name such as pypi.org, or *.pypi.org for all names below it.",
)


def bad_host(host: str, repo: str) -> Refusal:
    """An address, a URL or something else that is no host name."""
    return _BAD_HOST(Ask(OPERATOR, f"`rift repo network {repo} --allow HOST` with a host name"), host=host)


def no_such_added(repo: str) -> Refusal:
    """A name that no organization has, said to whoever runs the server."""
    return _NO_SUCH_ADDED(Ask(OPERATOR, "`rift repo ls` lists what there is; `rift repo add` adds one"), repo=repo)


def _seen(repo: Repo) -> str:
    return "a minute" if repo.forge == "github" else "10 seconds"


def _unread(repo: Repo) -> str:
    return f" Its origin could not be read: {repo.failure}" if repo.failure else ""
