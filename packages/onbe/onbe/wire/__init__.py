"""HTTP: parse, authenticate, one action, render."""
