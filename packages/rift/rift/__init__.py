"""Rift: disposable boxes for coding agents, grouped into leased tasks, over MCP."""
