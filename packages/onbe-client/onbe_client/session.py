"""What the async and the blocking client and session have in common: everything but the waiting."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

from onbe_client.answers import words
from onbe_client.clock import SystemWorld, World
from onbe_client.errors import BadAnswer, GrantUnknown, Misconfigured, OnbeError, Over, TaskEnded, TaskRevoked
from onbe_client.flows import Begun, Came, Core
from onbe_client.keys import AgentKey, KeyLike
from onbe_client.metadata import issuer_of
from onbe_client.renewal import Renewals
from onbe_client.store import Grant, GrantStore

log = logging.getLogger("onbe_client")

GRANT_PREFIX = "task_grant_"
INSTANCE_LENGTH = 128
PATIENCE = 60.0
"""Seconds for which a call waits for what may be retried, where it is not told otherwise."""


class ClientBase:
    """Who asks, and where."""

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
        world: World | None = None,
    ) -> None:
        if not agent_id:
            raise Misconfigured("agent_id_missing", "The agent has no id.")
        if instance is not None and not (1 <= len(instance) <= INSTANCE_LENGTH and instance.isprintable()):
            raise Misconfigured("instance_unfit", f"An instance is 1 to {INSTANCE_LENGTH} printable characters.")
        if not timeout > 0:
            raise Misconfigured("timeout_unfit", "The timeout is seconds, more than 0.")
        signer = key if isinstance(key, AgentKey) else AgentKey(key, kid=kid, algorithm=algorithm)
        self._core = Core(
            issuer=issuer_of(issuer, insecure=insecure),
            agent_id=agent_id,
            key=signer,
            world=world or SystemWorld(),
            instance=instance,
            insecure=insecure,
            timeout=timeout,
        )
        self._store = store
        self._patience = patience

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.issuer!r}, {self._core.agent_id!r})"

    @property
    def issuer(self) -> str:
        """The issuer's address, without a slash at its end."""
        return self._core.issuer

    @property
    def agent_id(self) -> str:
        return self._core.agent_id

    @property
    def public_jwk(self) -> dict[str, object]:
        """The public key that the agent's registration holds."""
        return self._core.key.public_jwk

    @staticmethod
    def _scope(scope: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
        try:
            found = words(scope)
        except ValueError as error:
            raise Misconfigured("scope_unfit", f"The scope is none: {error}.") from None
        if not found:
            raise Misconfigured("scope_unfit", "The scope is empty.")
        return found

    def _raw(self, grant: str) -> Grant:
        return Grant(grant=grant, issuer=self._core.issuer, agent_id=self._core.agent_id)

    def _own(self, grant: Grant | None) -> Grant:
        """The grant, if it is one of this agent's at this issuer."""
        if grant is None:
            raise GrantUnknown("grant_unknown", "Nothing is kept under this key.")
        if grant.issuer != self._core.issuer or grant.agent_id != self._core.agent_id:
            raise Misconfigured("grant_of_another", "The grant is another agent's, or of another issuer.")
        return grant


class SessionBase:
    """One task, as this program sees it."""

    def __init__(self, core: Core, grant: Grant, store: GrantStore | None, key: str | None, patience: float) -> None:
        self._core = core
        self._grant = grant
        self._store = store
        self._key = key
        self._patience = patience
        self._renewals = Renewals(grant.task_id, grant.scope)
        self._generation = 0
        """Counts the scopes that were wanted: an answer for an earlier one is not taken."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_id={self.task_id!r}, resource={self.resource!r}, scope={self.scope!r})"

    @property
    def task_id(self) -> str | None:
        """The task's id; None for a grant resumed without one, until its first token."""
        return self._renewals.task_id

    @property
    def resource(self) -> str | None:
        """The task's audience; None for a grant resumed without one."""
        return self._grant.resource

    @property
    def scope(self) -> tuple[str, ...] | None:
        """What the token in hand holds; None before the first of a resumed task."""
        return self._renewals.scope

    @property
    def expires_at(self) -> datetime | None:
        """When the token in hand expires, by this machine's clock; None where there is none."""
        left = self._renewals.good_until - self._core.world.monotonic()
        if self._renewals.still_good(self._core.world.monotonic()) is None:
            return None
        return datetime.fromtimestamp(self._core.world.now() + left, UTC)

    @property
    def task_expires_at(self) -> datetime | None:
        """When the task ends, by the server's clock; None where it is not known."""
        return self._grant.task_expires_at

    @property
    def grant(self) -> Grant:
        """What another process needs to go on with the task. A secret."""
        return self._grant

    @property
    def over(self) -> Over | None:
        """Why the task gives no more tokens; None while it may."""
        return self._renewals.over

    def _begin(self, begun: Begun) -> None:
        self._renewals.succeeded(begun.came.issued, begun.came.asked_at)
        self._renewals.scope = begun.scope

    def _take(self, came: Came) -> bool:
        """Take a token; returns whether the grant to keep is another than before. Raises BadAnswer."""
        issued = came.issued
        self._renewals.succeeded(issued, came.asked_at)
        before = self._grant
        self._grant = replace(
            before,
            grant=issued.grant or before.grant,
            task_id=self.task_id,
            task_expires_at=issued.task_expires_at or before.task_expires_at,
        )
        return self._grant != before

    def _settle(self, came: Came | OnbeError, generation: int) -> bool:
        """Take what a renewal came to; returns whether what is kept of the grant must follow."""
        if generation != self._generation:
            return False
        try:
            if isinstance(came, Came):
                return self._take(came)
        except BadAnswer as error:
            came = error
        world = self._core.world
        self._renewals.failed(came, world.monotonic(), world.chance())
        log.warning("renewing task %s failed: %s (%s)", self.task_id, came.error, came.reason or "no reason")
        return self._gone

    def _want(self, scope: tuple[str, ...], came: Came) -> None:
        """From now on tokens are asked for with this scope, and this is the first of them. Raises BadAnswer."""
        self._take(came)
        self._generation += 1
        self._grant = replace(self._grant, scope=scope)
        self._renewals.scope = came.issued.scope if came.issued.scope is not None else scope

    @property
    def _gone(self) -> bool:
        """Whether nobody will ever get a token by this grant again."""
        return isinstance(self._renewals.over, TaskEnded | TaskRevoked | GrantUnknown)
