"""One file a tool: parse, one action, render."""
