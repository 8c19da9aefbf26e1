"""What people tell of Rift itself: drafted by their agents, submitted by them, read by the platform admin."""
