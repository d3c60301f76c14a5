"""stabgate."""
