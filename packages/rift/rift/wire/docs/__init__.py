"""The documentation as it is served: which pages there are, their files, and what they become as HTML."""
