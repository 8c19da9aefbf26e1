"""GitHub: the App, the accounts it is installed on, the people who have connected theirs, and everybody's tokens."""
