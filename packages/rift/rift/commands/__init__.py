"""Commands: what runs in a box, what it printed, and how it ended. A read and a write are commands too."""
