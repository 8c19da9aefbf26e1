"""Pools: warm boxes at the head of each watched ref."""
