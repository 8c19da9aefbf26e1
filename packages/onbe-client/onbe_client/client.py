"""The async client: an agent that acts for a person, one task at a time. Lives in one asyncio event loop."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import httpx2

from onbe_client import flows
from onbe_client.auth import TaskAuth
from onbe_client.clock import World
from onbe_client.errors import OnbeError, Over, ScopeRefused, SessionClosed
from onbe_client.flows import Came, Core
from onbe_client.http import run
from onbe_client.keys import AgentKey, KeyLike
from onbe_client.renewal import Early, Fail, Hold, Use
from onbe_client.session import GRANT_PREFIX, PATIENCE, ClientBase, SessionBase
from onbe_client.store import Grant, GrantStore

EARLY_WAIT = 1.0
"""Seconds that a caller waits for a renewal while the token in hand is still good; then it gets that one."""


class OnbeClient(ClientBase):
    """One agent at one Onbe.

    `issuer`: its address, exactly as its metadata name it; https, or http to this machine. `agent_id`: as registered.
    `key`: the agent's private key (PEM, JWK, or a file's path), with `kid` and `algorithm` where they do not follow
    from it. `instance`: names this process in tokens, 1 to 128 printable characters. `store`: keeps grants for
    `resume`. `timeout`: seconds for one request. `patience`: seconds for which a call retries what may be retried.
    `insecure` allows http to other machines. `http`: a client to use in place of one of our own; it is not closed.

    Raises Misconfigured for what cannot work.
    """

    def __init__(
        self,
        issuer: str,
        agent_id: str,
        key: KeyLike | AgentKey,
        *,
        kid: str | None = None,
        algorithm: str | None = None,
        instance: str | None = None,
        store: GrantStore | None = None,
        timeout: float = 10.0,
        patience: float = PATIENCE,
        insecure: bool = False,
        http: httpx2.AsyncClient | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(
            issuer, agent_id, key, kid=kid, algorithm=algorithm, instance=instance, store=store, timeout=timeout,
            patience=patience, insecure=insecure, world=world,
        )  # fmt: skip
        self._http = http or httpx2.AsyncClient()
        self._lent = http is not None

    async def exchange(
        self,
        subject_token: str,
        resource: str,
        scope: str | tuple[str, ...] | list[str] | None = None,
        *,
        subject_token_type: str = flows.SUBJECT_ACCESS,
        key: str | None = None,
        patience: float | None = None,
    ) -> TaskSession:
        """Begin a task for the person whose token this is, or a part of the task whose token this is (RFC 8693).

        `resource`: where the task works, one of the agent's audiences. `scope`: what for; None is all there is.

        The grant is kept in the store under `key`, else under the task's id. Raises OnbeError: RequestRefused for a
        subject token that is not taken, ScopeRefused, TargetRefused, AgentUnknown, the kinds of Over, or what could
        be retried until the patience was over.
        """
        wait = self._patience if patience is None else patience
        wanted = None if scope is None else self._scope(scope)
        flow = flows.exchange(self._core, subject_token, resource, wanted, kind=subject_token_type, patience=wait)
        begun = await run(flow, self._http, self._core.world)
        grant = Grant(
            grant=begun.grant, issuer=self.issuer, agent_id=self.agent_id, task_id=begun.task_id, resource=resource,
            task_expires_at=begun.task_expires_at,
        )  # fmt: skip
        session = TaskSession(self._core, self._http, grant, self._store, key or begun.task_id, self._patience)
        session._begin(begun)
        await session._keep()
        return session

    async def resume(self, grant: Grant | str) -> TaskSession:
        """Go on with a task: a Grant, a `task_grant_…`, or the key of one in the store. Asks when a token is wanted.

        Raises GrantUnknown where nothing is kept under the key, Misconfigured for a grant of another agent's.
        """
        if isinstance(grant, Grant):
            return TaskSession(self._core, self._http, self._own(grant), self._store, grant.task_id, self._patience)
        if grant.startswith(GRANT_PREFIX):
            return TaskSession(self._core, self._http, self._raw(grant), None, None, self._patience)
        kept = await asyncio.to_thread(self._store.load, grant) if self._store is not None else None
        return TaskSession(self._core, self._http, self._own(kept), self._store, grant, self._patience)

    async def revoke(self, token: str, *, patience: float | None = None) -> None:
        """End a task by its grant, with all that was delegated from it; or one access token (RFC 7009)."""
        hint = "refresh_token" if token.startswith(GRANT_PREFIX) else "access_token"
        wait = self._patience if patience is None else patience
        await run(flows.revoke(self._core, token, hint, patience=wait), self._http, self._core.world)

    async def aclose(self) -> None:
        """Close the connections."""
        if not self._lent:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class TaskSession(SessionBase):
    """One task: gives a good token to any number of callers, renewed by its grant.

    As a context manager it finishes the task where the block ended well (nothing is revoked; the agent stops asking,
    and the grant is kept no longer), and only closes where it did not, so that the task can be resumed.
    """

    def __init__(
        self,
        core: Core,
        http: httpx2.AsyncClient,
        grant: Grant,
        store: GrantStore | None,
        key: str | None,
        patience: float,
    ) -> None:
        super().__init__(core, grant, store, key, patience)
        self._http = http
        self._flight: asyncio.Task[None] | None = None

    async def access_token(self, *, patience: float | None = None) -> str:
        """A token with more than 5 seconds left. At 60 % of its life it is renewed, once for all who ask meanwhile.

        While the token in hand is good, nobody waits for longer than a second. Without one, what may be retried is,
        1 to 60 s apart, until `patience` seconds are over or the task is. Raises Over (stop), Refused, or Retryable.
        """
        world = self._core.world
        until = world.monotonic() + (self._patience if patience is None else patience)
        while True:
            now = world.monotonic()
            match self._renewals.advise(now):
                case Use(token):
                    return token
                case Fail(error):
                    raise error
                case Hold(seconds, error):
                    if now + seconds > until:
                        raise error
                    await world.sleep(seconds)
                case Early():
                    await self._renewed(EARLY_WAIT)
                    good = self._renewals.still_good(world.monotonic())
                    if good is not None:
                        return good
                case _:
                    await self._renewed(None)

    def auth(self, *, anywhere: bool = False) -> TaskAuth:
        """For httpx2: adds the token to each request to the task's resource. `anywhere`: to all others too."""
        return TaskAuth(self, anywhere=anywhere)

    async def narrow(self, scope: str | tuple[str, ...] | list[str], *, patience: float | None = None) -> None:
        """From now on ask for tokens with this scope, a part of what the task was granted; the first comes at once.

        Where it fails (ScopeRefused: the task was not granted all of it), the session is as before.
        """
        wanted = ClientBase._scope(scope)
        if self.over is not None and not isinstance(self.over, ScopeRefused):
            raise self.over.again()
        wait = self._patience if patience is None else patience
        try:
            came = await run(
                flows.narrow(self._core, self._grant.grant, wanted, patience=wait), self._http, self._core.world
            )
        except Over as error:
            if not isinstance(error, ScopeRefused) and self._settle(error, self._generation):
                await self._keep()
            raise
        self._want(wanted, came)
        await self._keep()

    async def finish(self) -> None:
        """The work is done: stop asking, and keep the grant no longer. The task ends by itself; nothing is revoked."""
        await self.aclose()
        await self._forget()

    async def revoke(self, *, patience: float | None = None) -> None:
        """End the task now, with all that was delegated from it: its tokens are worth nothing where it is asked."""
        wait = self._patience if patience is None else patience
        flow = flows.revoke(self._core, self._grant.grant, "refresh_token", patience=wait)
        await run(flow, self._http, self._core.world)
        await self.finish()

    async def aclose(self) -> None:
        """Give no more tokens; the grant stays kept."""
        self._renewals.end(SessionClosed("session_closed", "This session was closed."))
        flight, self._flight = self._flight, None
        if flight is not None and not flight.done():
            flight.cancel()
            await asyncio.wait({flight})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await (self.finish() if kind is None else self.aclose())

    async def _renewed(self, within: float | None) -> None:
        """Join the renewal under way, or begin one. A caller that is cancelled does not take it from the others."""
        flight = self._flight
        if flight is None or flight.done():
            flight = self._flight = asyncio.create_task(self._renew(), name="onbe renewal")
        await asyncio.wait({flight}, timeout=within)
        if flight.done() and not flight.cancelled():
            flight.result()

    async def _renew(self) -> None:
        generation = self._generation
        came: Came | OnbeError
        try:
            flow = flows.refresh(self._core, self._grant.grant, self._grant.scope, self._core.timeout)
            came = await run(flow, self._http, self._core.world)
        except OnbeError as error:
            came = error
        if self._settle(came, generation):
            await self._keep()

    async def _keep(self) -> None:
        if self._gone:
            await self._forget()
        elif self._store is not None and self._key is not None:
            await asyncio.to_thread(self._store.save, self._key, self._grant)

    async def _forget(self) -> None:
        if self._store is not None and self._key is not None:
            await asyncio.to_thread(self._store.forget, self._key)
