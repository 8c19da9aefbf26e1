"""Secrets of a repository: set and removed by admins, sealed at rest, handed to commands, shown to nobody."""
