"""What must hold, and what happened."""
