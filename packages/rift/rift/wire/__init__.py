"""The edges: MCP, the agents, the web; each turns actions into its own words."""
