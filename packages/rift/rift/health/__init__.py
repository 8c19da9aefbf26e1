"""How the whole system stands: what every process shares, read from the database, and whether calls can be taken."""
