"""Flags, ini keys and marker that say when a gate ends."""

from __future__ import annotations

import pytest

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import pytest_stabgate.fixture  # noqa: F401

GATE = """
    import numpy as np
    import pytest
    import stabgate as sg

    def explain(X, seed):
        return np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)

    {marker}
    def test_steady(stabgate):
        verdict = stabgate.assert_min_k_stability(sg.explainers.Custom(explain), np.zeros((4, 3)), k=3, runs=20{more})
        print("ended", verdict.outcome, verdict.runs)
"""


@pytest.fixture
def gate(pytester: pytest.Pytester):
    def write(more: str = "", marker: str = "", ini: str = ""):
        if ini:
            pytester.makeini("[pytest]\n" + ini)
        pytester.makepyfile(test_gate=GATE.format(more=more, marker=marker))
        return pytester

    return write


@pytest.mark.parametrize(
    ("written", "flags", "runs"),
    [
        ({}, [], 10),
        ({}, ["--stabgate-early=off"], 20),
        ({"ini": "stabgate_early = off"}, [], 20),
        ({"ini": "stabgate_early = off"}, ["--stabgate-early=on"], 10),
        ({"marker": "@pytest.mark.stabgate(early=False)"}, [], 20),
        ({"marker": "@pytest.mark.stabgate(early='on')"}, ["--stabgate-early=off"], 10),
        ({"more": ", early=True"}, ["--stabgate-early=off"], 10),
    ],
)
def test_early_stopping_is_switched_by_flag_ini_key_marker_and_argument(gate, written, flags, runs):
    result = gate(**written).runpytest("-s", *flags)
    result.stdout.fnmatch_lines([f"*ended PASS {runs}*"])
    shown = "10/20" if runs == 10 else "20"
    assert any(shown in line.split() for line in result.outlines if "test_steady" in line)


def test_a_budget_ends_each_gate_and_is_part_of_the_replay_command(gate):
    result = gate().runpytest("--stabgate-budget=0.001s")
    assert result.ret == 1
    text = result.stdout.str()
    assert "NOT MEASURED: test_steady" in text
    assert "the budget of 0.001s ended after 0 of 20 runs" in text
    assert "--stabgate-budget=0.001s" in next(line for line in result.outlines if "replay:" in line)
    assert gate(marker="@pytest.mark.stabgate(budget='none')").runpytest("--stabgate-budget=0.001s").ret == 0
    assert gate(ini="stabgate_budget = 3m, 10 rows").runpytest().ret == 0  # the explainer has no model


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--stabgate-budget=3", "--stabgate-budget='3': '3' cannot be read; it must be a time such as"),
        ("--stabgate-budget=3m,4s", "--stabgate-budget='3m,4s' names two limits of one kind"),
        ("--stabgate-early=maybe", "--stabgate-early='maybe': it must be on or off"),
    ],
)
def test_a_wrong_value_is_a_usage_error(gate, flag, message):
    result = gate().runpytest(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
