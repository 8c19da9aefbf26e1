"""Letters that Rift sends, and the one-time links that they carry."""
