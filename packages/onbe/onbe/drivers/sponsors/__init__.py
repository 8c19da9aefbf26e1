"""Drivers: sponsors."""
