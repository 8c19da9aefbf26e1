"""Drivers: signing in at somebody else's."""
