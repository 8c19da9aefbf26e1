"""Passkeys: keys in people's devices that sign them in without an address and without a letter."""
