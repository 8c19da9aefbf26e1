"""The documents in which MCP clients describe themselves: read from the address that is their id."""
