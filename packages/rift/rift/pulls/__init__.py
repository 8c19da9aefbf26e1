"""What a box asks of GitHub as its person: pull requests, issues, checks."""
