"""How letters leave: by SMTP, or into a list for tests."""
