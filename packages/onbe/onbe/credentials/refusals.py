"""Why nothing was revoked. No answer says so: it stands on the record alone."""

from __future__ import annotations

from onbe.catalogue import reason

token_not_found = reason("token_not_found", "What was to be revoked is no token of this agent's.")
