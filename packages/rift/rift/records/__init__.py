"""Reading what was recorded: pages, one record with its seal, proofs, the check of all of it, erasing of texts."""
