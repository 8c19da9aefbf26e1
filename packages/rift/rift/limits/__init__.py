"""Limits: what the boxes of a repository may use, where it is not the default."""
