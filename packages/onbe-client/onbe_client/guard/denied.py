"""Why a request is not let in."""

from __future__ import annotations

STATUS: dict[str, int] = {
    "invalid_request": 400,
    "invalid_token": 401,
    "insufficient_scope": 403,
    "temporarily_unavailable": 503,
}
"""By error: the HTTP status (RFC 6750, 3.1; 503 where it could not be found out, which is never a yes)."""


class Denied(Exception):
    """Not let in. `error` of RFC 6750, None where no token came; `reason` for the log; `scope` that would be needed.

    Repeats nothing of the token.
    """

    def __init__(self, error: str | None, reason: str, description: str, *, scope: tuple[str, ...] = ()) -> None:
        self.error = error
        self.reason = reason
        self.description = description
        self.scope = scope
        super().__init__(f"{error or 'unauthorized'}: {description}")

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return STATUS[self.error] if self.error else 401

    def challenge(self, resource_metadata: str | None = None) -> str | None:
        """The value of `WWW-Authenticate` (RFC 6750, 3; RFC 9728, 5.1); None where no other token would help."""
        if self.status == 503:
            return None
        parts: list[tuple[str, str]] = []
        if self.error:
            parts += [("error", self.error), ("error_description", self.description)]
        if self.scope:
            parts.append(("scope", " ".join(self.scope)))
        if resource_metadata:
            parts.append(("resource_metadata", resource_metadata))
        return "Bearer" + ",".join(f' {name}="{value}"' for name, value in parts)

    def body(self) -> dict[str, str]:
        """The members of the answer's JSON."""
        return {"error": self.error or "unauthorized", "error_description": self.description}
