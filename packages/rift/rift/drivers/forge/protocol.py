"""What a forge does, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from keel.sizes import KIB
from rift.drivers.data import Data

Service = Literal["upload-pack", "receive-pack"]
"""Git's two services: reading a repository, writing it."""
Part = Literal["refs", "rpc"]
"""One request of git's smart HTTP: `refs` is `GET info/refs?service=git-SERVICE`, `rpc` is `POST git-SERVICE`."""

FEED_BYTES = 256 * KIB
"""The most that one `feed` takes and one `drain` gives."""


class ForgeError(Exception):
    """A forge could not do what it was asked; `reason` is fit to be shown to a person and holds no credential."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ForgeInterrupted(ForgeError):
    """What the forge had begun was ended from outside: tried again, it may well go better."""


@dataclass(frozen=True, slots=True)
class Access:
    """What opens an origin over HTTP. It is sent to that origin's own scheme, host and port, and nowhere else."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a checkout of a commit needs beside its own objects was brought; `lacks`: one sentence for each thing that
    could not be.
    """

    lacks: tuple[str, ...] = ()


class Forge(Protocol):
    """Heads are `{short branch name: full commit name}`. Each method raises ForgeError, and only that.

    None of them may be called inside a database transaction (they raise then).
    """

    @property
    def kind(self) -> str:
        """A short word for lists and settings: `local`, `fake`."""

    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        """The branches of the repository as they are now; empty for an empty repository."""

    async def default(self, url: str, access: Access | None = None) -> str | None:
        """The branch (its short name) that the repository's HEAD names now.

        None where that names none: it is detached, its branch is not there, or who serves it does not tell.
        """

    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        """Bring the bare mirror up to date, made when absent, and return its heads.

        A branch that is gone from the repository goes from the heads; objects, once fetched, stay. A mirror that was
        lost is made anew.
        """

    async def has(self, mirror: Path) -> bool:
        """Whether the mirror is there with what was fetched. False for one that was lost, whole or its objects."""

    async def pin(self, mirror: Path, box: str, commit: str) -> None:
        """Keep the commit in the mirror for this box, whatever happens to its branch. Raises when it is not there."""

    async def pins(self, mirror: Path) -> frozenset[str]:
        """The boxes that have a pin in the mirror; none where there is no mirror."""

    async def unpin(self, mirror: Path, box: str) -> None:
        """Forget the box's pin; there may be none."""

    async def gather(self, url: str, mirror: Path, commit: str, access: Access | None = None) -> Gathered:
        """Bring what a checkout of the commit needs beside the mirror's own objects: submodules, LFS files.

        The mirror has the commit already (`fetch`). It may take minutes the first time, and again does nothing. What
        cannot be brought is told in `lacks` and keeps nothing else from being brought. Raises when the mirror has no
        such commit.
        """

    # The service sessions let a box fetch and push with no credential in its jail. One session is one request of git's
    # smart HTTP: `feed` takes the request's body (empty for `refs`), `drain` gives the body of its answer, whose status
    # is 200 and whose type is `application/x-git-SERVICE-advertisement` for `refs`, `-result` for `rpc`. Bodies are
    # plain: whoever speaks HTTP takes `Content-Encoding: gzip` off first.

    async def open(
        self, mirror: Path, url: str, service: Service, part: Part, version: int = 0, access: Access | None = None
    ) -> str:
        """Begin a session and return its id.

        `version` is that of the `Git-Protocol` header, 0 where there is none. The mirror is made or brought up to date
        with the origin before `refs` of either service are told; they are its heads and tags, and nothing else of it.
        A `receive-pack` hands on to the origin the updates that were asked, each under the condition that the ref is
        there what the client saw; what the origin refuses comes back for each ref with the reason, and what it says
        as `remote:` lines. Raises where the origin cannot be read, and where too many sessions are open. A session
        that is neither fed nor drained for a minute ends by itself.
        """

    async def feed(self, session: str, data: Data, last: bool) -> None:
        """Hand over the next part of the request's body, at most FEED_BYTES; `last` ends it.

        Returns when it was taken, which is the back pressure. Feed and drain at the same time, as an answer may begin
        before its request has ended. Raises when there is no such session.
        """

    async def drain(self, session: str) -> Data | None:
        """The next part of the answer; empty bytes when there was none for some seconds, None at the end.

        Raises when there is no such session, or git failed without an answer that a client understands.
        """

    async def close(self, session: str) -> None:
        """End the session and whatever works for it; there may be none. Due after the end as well."""
