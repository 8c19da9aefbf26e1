"""Drivers: signing."""
