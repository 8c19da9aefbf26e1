"""What a box asks of its repository's forge through its agent's door: git's fetches and pushes, LFS files."""
