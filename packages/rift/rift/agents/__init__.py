"""The boxes' agents: what the program beside a jail is told, and what it reports."""
