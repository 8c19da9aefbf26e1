"""How the whole system stands: what every process shares, read from the database, and whether requests can be taken."""
