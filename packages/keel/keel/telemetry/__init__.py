"""What a running system tells of itself: log lines, traces, and the plain text a scraper reads."""
