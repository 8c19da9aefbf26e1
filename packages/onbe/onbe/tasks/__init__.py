"""Tasks: one piece of work of one agent for one person against one audience, with a clock of its own."""
