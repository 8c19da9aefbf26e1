"""Directories of people: `protocol` says what each does; in front of a real one stand `cached` and `circuit`."""
