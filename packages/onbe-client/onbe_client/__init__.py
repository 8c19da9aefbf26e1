"""For agents and tool servers: short tokens for one task, renewed by a task grant, and the guard that checks them.

```python
async with OnbeClient("https://onbe.example.com", "reports", "agent.pem") as onbe:
    async with await onbe.exchange(person_token, "https://files.example.com", "files:read") as task:
        async with httpx2.AsyncClient(auth=task.auth()) as http:
            await http.get("https://files.example.com/report")
```

`onbe_client.sync` has the blocking twin, `onbe_client.guard` what a tool server needs, `onbe_client.errors` the tree of
what can go wrong.
"""

from onbe_client.auth import TaskAuth
from onbe_client.client import OnbeClient, TaskSession
from onbe_client.errors import (
    AgentDisabled,
    AgentUnknown,
    BadAnswer,
    GrantUnknown,
    Misconfigured,
    OnbeError,
    Over,
    Refused,
    RequestRefused,
    Retryable,
    ScopeRefused,
    SessionClosed,
    SlowDown,
    SponsorGone,
    TargetRefused,
    TaskEnded,
    TaskRevoked,
    Unavailable,
    Unreachable,
)
from onbe_client.flows import SUBJECT_ACCESS, SUBJECT_ID, SUBJECT_JWT
from onbe_client.keys import AgentKey
from onbe_client.store import FileGrants, Grant, GrantStore, MemoryGrants

__all__ = [
    "SUBJECT_ACCESS",
    "SUBJECT_ID",
    "SUBJECT_JWT",
    "AgentDisabled",
    "AgentKey",
    "AgentUnknown",
    "BadAnswer",
    "FileGrants",
    "Grant",
    "GrantStore",
    "GrantUnknown",
    "MemoryGrants",
    "Misconfigured",
    "OnbeClient",
    "OnbeError",
    "Over",
    "Refused",
    "RequestRefused",
    "Retryable",
    "ScopeRefused",
    "SessionClosed",
    "SlowDown",
    "SponsorGone",
    "TargetRefused",
    "TaskAuth",
    "TaskEnded",
    "TaskRevoked",
    "TaskSession",
    "Unavailable",
    "Unreachable",
]
