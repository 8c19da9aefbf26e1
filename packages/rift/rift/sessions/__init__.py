"""Where people are signed in with a browser, and how they did that."""
