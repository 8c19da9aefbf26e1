"""Feedback that agents draft and people submit."""
