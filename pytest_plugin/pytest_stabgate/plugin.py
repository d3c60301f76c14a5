"""options, fixture and summary."""
