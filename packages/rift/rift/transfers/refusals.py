"""What git-lfs is refused at the door."""

from __future__ import annotations

from keel.refusal import Ask, Refusal, Retry, Stop, kind
from rift.people.model import OPERATOR

_NO_LFS = kind(
    "verb_no_lfs",
    "The origin of {repository} is reached by a path or by ssh, where Rift passes no LFS files on. "
    "`git push --no-verify` pushes the commits without them.",
)
_STALE = kind("verb_transfer_over", "This address of an LFS file is not good any more; `git lfs` asks for another.")
_WRONG = kind("verb_lfs_malformed", "The request for LFS files was not passed on: {problem}.")


def no_lfs(repository: str) -> Refusal:
    """There is no server that takes LFS files."""
    return _NO_LFS(Ask(OPERATOR, "an origin over https, if LFS files are to be pushed"), repository=repository)


def over() -> Refusal:
    """A sealed address that expired, was changed, or is another box's."""
    return _STALE(Retry(1))


def malformed(problem: str) -> Refusal:
    """What came is none of git-lfs's requests."""
    return _WRONG(Stop(), problem=problem)
