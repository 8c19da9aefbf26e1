"""What a tool server needs to take task tokens: verified here, without asking Onbe, but where the token says so.

```python
guard = Guard("https://onbe.example.com", "https://files.example.com")
token = await guard.verify(bearer, "files:read")        # raises Denied
app = GuardMiddleware(app, guard, {"GET /files": "files:read", "POST /files": "files:write"})
```

`onbe_client.guard.mcp` guards an MCP server of the official SDK in three lines.
"""

from onbe_client.guard.asgi import GuardMiddleware, task_token
from onbe_client.guard.denied import Denied
from onbe_client.guard.guard import Guard
from onbe_client.guard.token import Actor, TaskToken

__all__ = ["Actor", "Denied", "Guard", "GuardMiddleware", "TaskToken", "task_token"]
