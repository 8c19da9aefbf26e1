"""Reading what was recorded: pages, sums, proofs; sealing it, handing it on to a sink, archiving it."""
