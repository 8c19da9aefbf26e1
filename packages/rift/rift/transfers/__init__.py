"""LFS files of a box: asked for and sent through its door, while the origin's addresses stay with Rift."""
