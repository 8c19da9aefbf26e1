"""Drivers: keys."""
