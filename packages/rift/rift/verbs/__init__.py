"""Verbs: what is done for a box at its repository's forge, as the person whose task holds the box."""
