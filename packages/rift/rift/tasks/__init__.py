"""Tasks: the unit of work an agent claims boxes for, held under a lease by possession of a secret."""
