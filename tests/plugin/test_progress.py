"""Progress of a long measurement past pytest's capture, in one process and in workers, bounded, and quiet with -q."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = """
import numpy as np
import stabgate as sg
import stabgate.progress

stabgate.progress.FIRST = 0.0
stabgate.progress.LOG._wait = 0.0

def test_slow(stabgate):
    def explain(X, seed):
        return np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)
    stabgate.assert_min_k_stability(sg.explainers.Custom(explain), np.zeros((2, 3)), k=2, runs=10)
    print("captured")
"""


@pytest.mark.parametrize(
    ("flags", "shown"),
    [((), True), (("-q",), False), (("-n", "1"), True), (("-s",), True)],
    ids=["plain", "quiet", "worker", "uncaptured"],
)
def test_lines_pass_the_capture(pytester, flags, shown):
    file = pytester.makepyfile(test_slow=SLOW)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert ("stabgate: explaining " in text) == shown
    assert ("[gw0] stabgate: " in done.stderr) == ("-n" in flags)
    assert ("captured" in text) == ("-s" in flags)
