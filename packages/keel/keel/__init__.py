"""The small core that Rift and Onbe stand on: time, chance, refusals, the database, jobs, the ledger, settings."""
