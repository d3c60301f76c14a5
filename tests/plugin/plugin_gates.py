"""What tests of the plugin share: a module of gates begins with an explainer whose spread a test chooses."""

from __future__ import annotations

# Three features whose magnitudes are 3, 2 and 1: a spread of 0.01 keeps them far apart, 2 does not.
NOISY = """
    import numpy as np
    import pytest
    import stabgate as sg

    X = np.zeros((6, 3))

    def noisy(spread):
        def explain(X, seed):
            return np.array([3.0, 2.0, 1.0]) + spread * np.random.default_rng(seed).normal(size=3)
        return sg.explainers.Custom(explain, name=f"noise {spread}")
"""
