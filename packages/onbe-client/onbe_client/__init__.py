"""For agents and tool servers: short tokens for one task, renewed by a task grant, and the guard that checks them."""
