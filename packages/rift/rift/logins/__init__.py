"""People's own GitHub accounts: how they are connected, and the tokens that act as them."""
