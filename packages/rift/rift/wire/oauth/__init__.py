"""How an MCP client signs in by the address alone."""
