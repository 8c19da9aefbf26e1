"""The blocking twin of `OnbeClient` and `TaskSession`, for any number of threads; the same flows, the same rules.

No thread renews by itself: whoever asks first at 60 % of a token's life renews it, for two seconds at most while the
token in hand is good; all others get that one meanwhile.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Self

import httpx2

from onbe_client import flows
from onbe_client.auth import BlockingTaskAuth
from onbe_client.clock import World
from onbe_client.errors import OnbeError, Over, ScopeRefused, SessionClosed
from onbe_client.flows import Came
from onbe_client.http import blocking_client, play
from onbe_client.keys import AgentKey, KeyLike
from onbe_client.renewal import Advice, Early, Fail, Hold, Renew, Use
from onbe_client.session import GRANT_PREFIX, PATIENCE, ClientBase, SessionBase
from onbe_client.steps import Flow, T
from onbe_client.store import Grant, GrantStore

EARLY_WITHIN = 2.0
"""Seconds for a renewal while the token in hand is good."""

_forked: weakref.WeakSet[OnbeClient | TaskSession] = weakref.WeakSet()
"""What a child made by fork must not share with its parent: connections, and locks that a thread left behind held."""


class OnbeClient(ClientBase):
    """As `onbe_client.OnbeClient`, blocking. `http`: a client to use in place of one of our own; it is not closed.

    After a fork the child has connections of its own, unless `http` was given.
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
        http: httpx2.Client | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(
            issuer, agent_id, key, kid=kid, algorithm=algorithm, instance=instance, store=store, timeout=timeout,
            patience=patience, insecure=insecure, world=world,
        )  # fmt: skip
        self._http = http or blocking_client()
        self._lent = http is not None
        _forked.add(self)

    def exchange(
        self,
        subject_token: str,
        resource: str,
        scope: str | tuple[str, ...] | list[str] | None = None,
        *,
        subject_token_type: str = flows.SUBJECT_ACCESS,
        key: str | None = None,
        patience: float | None = None,
    ) -> TaskSession:
        """Begin a task; see `onbe_client.OnbeClient.exchange`."""
        wait = self._patience if patience is None else patience
        wanted = None if scope is None else self._scope(scope)
        flow = flows.exchange(self._core, subject_token, resource, wanted, kind=subject_token_type, patience=wait)
        begun = self._play(flow)
        grant = Grant(
            grant=begun.grant, issuer=self.issuer, agent_id=self.agent_id, task_id=begun.task_id, resource=resource,
            task_expires_at=begun.task_expires_at,
        )  # fmt: skip
        session = TaskSession(self, grant, self._store, key or begun.task_id)
        session._begin(begun)
        session._keep()
        return session

    def resume(self, grant: Grant | str) -> TaskSession:
        """Go on with a task; see `onbe_client.OnbeClient.resume`."""
        if isinstance(grant, Grant):
            return TaskSession(self, self._own(grant), self._store, grant.task_id)
        if grant.startswith(GRANT_PREFIX):
            return TaskSession(self, self._raw(grant), None, None)
        kept = self._store.load(grant) if self._store is not None else None
        return TaskSession(self, self._own(kept), self._store, grant)

    def revoke(self, token: str, *, patience: float | None = None) -> None:
        """End a task by its grant, with all that was delegated from it; or one access token (RFC 7009)."""
        hint = "refresh_token" if token.startswith(GRANT_PREFIX) else "access_token"
        self._play(flows.revoke(self._core, token, hint, patience=self._patience if patience is None else patience))

    def close(self) -> None:
        """Close the connections."""
        if not self._lent:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _play(self, flow: Flow[T]) -> T:
        return play(flow, self._http, self._core.world)

    def _after_fork(self) -> None:
        if not self._lent:
            self._parents = self._http  # kept: closing it would say goodbye on connections that are the parent's
            self._http = blocking_client()


class TaskSession(SessionBase):
    """One task, for any number of threads; see `onbe_client.TaskSession`."""

    def __init__(self, client: OnbeClient, grant: Grant, store: GrantStore | None, key: str | None) -> None:
        super().__init__(client._core, grant, store, key, client._patience)
        self._client = client
        self._after_fork()
        _forked.add(self)

    def access_token(self, *, patience: float | None = None) -> str:
        """A token with more than 5 seconds left; see `onbe_client.TaskSession.access_token`."""
        world = self._core.world
        until = world.monotonic() + (self._patience if patience is None else patience)
        while True:
            advice = self._advice()
            match advice:
                case Use(token):
                    return token
                case Fail(error):
                    raise error
                case Hold(seconds, error):
                    if world.monotonic() + seconds > until:
                        raise error
                    world.pause(seconds)
                case Early(token):
                    if not self._renewing.acquire(blocking=False):
                        return token
                    try:
                        if isinstance(self._advice(), Early):
                            self._renew(min(EARLY_WITHIN, self._core.timeout))
                    finally:
                        self._renewing.release()
                    with self._lock:
                        good = self._renewals.still_good(world.monotonic())
                    if good is not None:
                        return good
                case _:
                    with self._renewing:
                        if isinstance(self._advice(), Renew):
                            self._renew(self._core.timeout)

    def auth(self, *, anywhere: bool = False) -> BlockingTaskAuth:
        """For `httpx2.Client`; see `onbe_client.TaskSession.auth`."""
        return BlockingTaskAuth(self, anywhere=anywhere)

    def narrow(self, scope: str | tuple[str, ...] | list[str], *, patience: float | None = None) -> None:
        """Ask for less from now on; see `onbe_client.TaskSession.narrow`."""
        wanted = ClientBase._scope(scope)
        if self.over is not None and not isinstance(self.over, ScopeRefused):
            raise self.over.again()
        wait = self._patience if patience is None else patience
        try:
            came = self._client._play(flows.narrow(self._core, self._grant.grant, wanted, patience=wait))
        except Over as error:
            if not isinstance(error, ScopeRefused):
                self._settled(error, self._generation)
            raise
        with self._lock:
            self._want(wanted, came)
        self._keep()

    def finish(self) -> None:
        """The work is done: stop asking, and keep the grant no longer. Nothing is revoked."""
        self.close()
        self._forget()

    def revoke(self, *, patience: float | None = None) -> None:
        """End the task now, with all that was delegated from it."""
        wait = self._patience if patience is None else patience
        self._client._play(flows.revoke(self._core, self._grant.grant, "refresh_token", patience=wait))
        self.finish()

    def close(self) -> None:
        """Give no more tokens; the grant stays kept."""
        with self._lock:
            self._renewals.end(SessionClosed("session_closed", "This session was closed."))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.close()

    def _advice(self) -> Advice:
        with self._lock:
            return self._renewals.advise(self._core.world.monotonic())

    def _renew(self, within: float) -> None:
        with self._lock:
            generation, grant = self._generation, self._grant
        came: Came | OnbeError
        try:
            came = self._client._play(flows.refresh(self._core, grant.grant, grant.scope, within))
        except OnbeError as error:
            came = error
        self._settled(came, generation)

    def _settled(self, came: Came | OnbeError, generation: int) -> None:
        with self._lock:
            changed = self._settle(came, generation)
        if changed:
            self._keep()

    def _keep(self) -> None:
        if self._gone:
            self._forget()
        elif self._store is not None and self._key is not None:
            self._store.save(self._key, self._grant)

    def _forget(self) -> None:
        if self._store is not None and self._key is not None:
            self._store.forget(self._key)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        """Around what is known of the task; held for moments."""
        self._renewing = threading.Lock()
        """Held by the thread that renews."""


def _in_child() -> None:
    for one in list(_forked):
        one._after_fork()


os.register_at_fork(after_in_child=_in_child)
