"""Onbe: the authority. An agent acts for a person, for one task, with a short token that a task grant renews."""
