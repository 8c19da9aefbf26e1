"""Origins: reading the repositories' own places, by whichever forge, and letting heads be what they are there."""
