"""MCP clients that sign in by the address alone: who they are, their codes, the secrets that are good now."""
