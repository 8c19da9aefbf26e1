"""What reaches outside: box drivers and forges, each behind a small protocol with one conformance suite."""
