"""GitHub's API: `protocol` says what is asked of it; `http` asks, `fake` is one in memory."""
