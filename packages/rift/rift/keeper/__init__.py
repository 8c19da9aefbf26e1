"""The keeper: the one process of a Rift started as root that keeps root, for what only root can do.

`checks` says what a server may ask of it, `desk` answers, `drop` is how the server gave root away.
"""
