"""How Rift is known at GitHub: its App, made there from a running Rift or set by the settings."""
