"""What is outside: keys that sign, keys that others publish, the directory of people."""
