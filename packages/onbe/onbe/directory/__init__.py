"""Agents that may ask, and the people they act for."""
