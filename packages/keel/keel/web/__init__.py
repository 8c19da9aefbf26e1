"""What surrounds every request of a server of ours: its connection, its id and log line, its start and its end."""
