"""Environments: what the boxes of one commit have beside the base, brought and built once for each head."""
