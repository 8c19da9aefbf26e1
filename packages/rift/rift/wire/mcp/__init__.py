"""The MCP surface: arguments in, one action, an answer out."""
