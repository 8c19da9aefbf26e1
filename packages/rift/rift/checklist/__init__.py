"""The checklist of rift_whoami: who somebody is, what there is for them, and what is between them and a box."""
