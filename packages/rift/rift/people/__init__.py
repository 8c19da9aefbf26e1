"""People: users, their personal organization and roles, and the tokens their clients carry."""
