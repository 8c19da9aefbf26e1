"""An MCP server of the official Python SDK (`mcp`), guarded in three lines.

```python
from onbe_client.guard.mcp import Guard, guarded

guard = Guard("https://onbe.example.com", "https://mcp.example.com/mcp")
server = MCPServer("files", **guarded(guard, "files:read"))
```

Inside a tool, `task_token()` says who acts for whom. Needs the package `mcp`, 2 or newer.
"""

from __future__ import annotations

from typing import TypedDict

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from onbe_client.guard.denied import Denied
from onbe_client.guard.guard import Guard
from onbe_client.guard.token import TaskToken

__all__ = ["Guard", "GuardedToken", "TaskTokens", "guarded", "task_token"]


class GuardedToken(AccessToken):
    """What the SDK keeps of a request's token, and what the guard read from it."""

    task: TaskToken


class TaskTokens:
    """A `TokenVerifier` of the SDK's that asks a guard."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def verify_token(self, token: str) -> GuardedToken | None:
        """None for whatever the guard denies: the SDK answers 401, also where the issuer could not be asked."""
        try:
            found = await self._guard.verify(token)
        except Denied:
            return None
        return GuardedToken(
            token=token,
            client_id=found.agent,
            scopes=list(found.scope),
            resource=found.audience,
            subject=found.subject,
            claims={"iss": self._guard.issuer, "act": {"sub": found.agent}, "task": {"id": found.task_id}},
            task=found,  # no expires_at: the guard has looked at it, by its own clock
        )


class Guarded(TypedDict):
    """Two arguments of MCPServer."""

    token_verifier: TaskTokens
    auth: AuthSettings


def guarded(guard: Guard, scope: str | None = None) -> Guarded:
    """What MCPServer takes: `MCPServer("files", **guarded(guard, "files:read"))`.

    The guard's audience is the server's own address, with its path. `scope`: what every call needs.
    """
    return Guarded(
        token_verifier=TaskTokens(guard),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(guard.issuer),
            resource_server_url=AnyHttpUrl(guard.audience),
            required_scopes=scope.split() if scope else None,
            validate_token_resource=False,  # the guard compares the audience, letter by letter
        ),
    )


def task_token() -> TaskToken:
    """Who acts for whom in the call under way. Raises LookupError outside of one."""
    found = get_access_token()
    if not isinstance(found, GuardedToken):
        raise LookupError("no guarded call is under way")
    return found.task
