"""pytest plugin of stabgate."""
