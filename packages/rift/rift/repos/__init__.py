"""Repositories: where they come from, the heads of their branches, and which branches are watched."""
