"""`onbe`: the command line. Every command has a help with an example."""
