"""Requests of git's and of LFS's on their way to an origin over HTTP."""
