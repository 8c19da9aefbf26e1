"""Exchange and refresh: how a task begins, and how its grant keeps it alive."""
