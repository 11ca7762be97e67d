"""decide/plugins."""
