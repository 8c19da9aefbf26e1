"""What adding a repository and reading its origin is refused with."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, kind
from rift.people.model import OPERATOR
from rift.repos.model import Repo

_BAD_NAME = kind(
    "bad_repository_name",
    "{name} is no repository name: it is OWNER/NAME, each of letters, digits, -, _ and ., at most 100 characters.",
)
_BAD_ORIGIN = kind("bad_repository_origin", "{origin} cannot be the origin of a repository: {why}.")
_EXISTS = kind("repository_exists", "{org} has {repo} already, from {url}.")
_CANNOT_FETCH = kind("cannot_fetch", "{repo} could not be fetched from {url}: {reason}")


def bad_name(name: str) -> Refusal:
    """Not OWNER/NAME."""
    return _BAD_NAME(Ask(OPERATOR, "`rift repo add OWNER/NAME URL_OR_PATH` with a name such as acme/app"), name=name)


def bad_origin(origin: str, why: str) -> Refusal:
    """Neither a git URL of a kind that is fetched, nor a folder."""
    return _BAD_ORIGIN(
        Ask(
            OPERATOR,
            "`rift repo add OWNER/NAME URL_OR_PATH` with an https, ssh, git or file URL, or a folder that is there",
        ),
        origin=origin,
        why=why,
    )


def exists(repo: Repo, org: str, url: str) -> Refusal:
    """Added before; `url` is its own, masked."""
    return _EXISTS(
        Ask(OPERATOR, f"`rift repo sync {repo.full}` reads its heads anew; another OWNER/NAME adds a second one"),
        org=org,
        repo=repo.full,
        url=url,
    )


def cannot_fetch(repo: str, url: str, reason: str) -> Refusal:
    """Git could not read the origin; `url` and `reason` are masked."""
    return _CANNOT_FETCH(
        Ask(OPERATOR, f"check that `git ls-remote {url}` works on the server, then add it again"),
        repo=repo,
        url=url,
        reason=reason,
    )


_NAMED_THERE = kind("repository_named_at_github", "{repo} is GitHub's, and has the name here that it has there.")


def named_there(repo: Repo) -> Refusal:
    """A repository of GitHub's is renamed at GitHub."""
    return _NAMED_THERE(Ask(f"an owner of {repo.login} at GitHub", f"rename {repo.full} there"), repo=repo.full)
