"""`stabgate calibrate` through pytest: every kind of gate, the fixture's measurements, and what cannot be repeated."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import pytest_stabgate.calibrating
import pytest_stabgate.fixture  # noqa: F401

GATES = """
    import numpy as np
    import stabgate as sg

    X = np.zeros((4, 3))

    def explain(X, seed):
        return np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)

    STEADY = sg.explainers.Custom(explain, name="steady")

    def test_floor(stabgate):
        stabgate.assert_min_k_stability(STEADY, X, k=3, share=0.9, runs=12, name="credit/floor")

    def test_unmet(stabgate):
        result = stabgate.measure_k_stability(STEADY, X, runs=12)
        stabgate.assert_min_k_stability(result, k=2, name="credit/met")
        stabgate.assert_no_regression(result, name="credit/margin", max_drop=0.1)
"""
ELSEWHERE = """
    def test_elsewhere(stabgate):
        result = sg.measure_k_stability(STEADY, X, runs=12)
        stabgate.assert_min_k_stability(result, k=2)
"""


def test_every_gate_of_a_session_is_calibrated_and_none_is_judged(pytester: pytest.Pytester):
    pytester.makepyfile(test_gates=GATES)
    result = pytester.runpytest("--stabgate-calibrate=3")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*stabgate calibrate*",
            "credit/floor: 3 measurements of the same model: 1.000 on average, standard deviation 0.000*",
            "  as it is: k >= 3 on 90 % of rows: fails 0.0 %, inconclusive 0.0 %",
            "  requirement: k >= 3 on 100 % of rows: fails 0.0 %, inconclusive 0.0 %",
            "  runs: 10 are the fewest*",
            "credit/met: 3 measurements*",
            "credit/margin: 3 measurements of the same model: 3.000 on average*",
            "  margin: max_drop=0: an unchanged model fails in 0.0 % of runs",
        ]
    )


def test_a_result_that_was_measured_elsewhere_cannot_be_repeated(pytester: pytest.Pytester):
    pytester.makepyfile(test_gates="\n".join([GATES, ELSEWHERE]))
    result = pytester.runpytest("--stabgate-calibrate=3", "-k", "elsewhere")
    result.assert_outcomes(failed=1)
    assert "measured elsewhere, under one seed" in result.stdout.str()


def test_fewer_than_three_repetitions_are_refused(pytester: pytest.Pytester):
    pytester.makepyfile(test_gates=GATES)
    assert "a spread needs at least 3 repetitions" in pytester.runpytest("--stabgate-calibrate=2").stdout.str()


def test_the_command_hands_the_rest_to_pytest(pytester: pytest.Pytester):
    path = pytester.makepyfile(test_gates=GATES)
    command = [sys.executable, "-m", "stabgate.cli", "calibrate", str(path), "--repeats", "3", "-k", "floor", "-n", "2"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "credit/floor: 3 measurements" in found.stdout
    assert "credit/met" not in found.stdout
    command[4] = str(path.with_name("nowhere"))
    path.with_name("nowhere").mkdir()
    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "collected no test" in missing.stderr
