"""Secrets of repositories: set and removed by admins, sealed at rest, given to the commands of boxes."""
