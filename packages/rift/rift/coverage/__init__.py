"""Coverage: which repositories the App covers, kept true by webhooks and, where those were missed, by looking."""
