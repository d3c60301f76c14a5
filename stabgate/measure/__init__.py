"""Measurements: explainers and numbers joined into results."""
