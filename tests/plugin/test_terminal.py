"""What a run says at its end, through pytest itself: problems first, widths, colour, -q, -v."""

from __future__ import annotations

import re

import pytest
import scipy.stats  # noqa: F401

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import pytest_stabgate.fixture  # noqa: F401

GATES = """
    import numpy as np
    import stabgate as sg

    X = np.zeros((6, 3))

    def noisy(spread):
        def explain(X, seed):
            return np.array([3.0, 2.0, 1.0]) + spread * np.random.default_rng(seed).normal(size=3)
        return sg.explainers.Custom(explain, name=f"noise {spread}")

    def test_steady(stabgate):
        stabgate.assert_min_k_stability(noisy(0.01), X, k=3, share=0.9, name="credit/steady")

    def test_shaky(stabgate):
        stabgate.assert_min_k_stability(noisy(2.0), X, k=3, share=0.9, name="credit/shaky")

    def test_raises(stabgate):
        def explain(X, seed):
            raise RuntimeError("no licence\\x1b[2J")
        stabgate.assert_min_k_stability(sg.explainers.Custom(explain), X, k=2, name="evil\\x1b[31m\\nname")

    def test_wrong(stabgate):
        stabgate.assert_min_k_stability(noisy(0.1), X, k=7, name="credit/wrong")
"""
FAIL = "FAIL credit/shaky: 0 of 6 rows meet k >= 3, 6 are needed (90 %)"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(test_gates=GATES)

    def go(*flags: str, **env: str) -> list[str]:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        lines = pytester.runpytest("--stabgate-runs=12", *flags).outlines
        start = next(i for i, line in enumerate(lines) if re.search(r"=+ stabgate =+", line))
        end = next(i for i, line in enumerate(lines[start + 1 :], start + 1) if re.search(r"={4,}", line))
        return lines[start + 1 : end]

    return go


def test_problems_stand_first_on_one_line_each_then_the_table_then_the_count(run):
    lines = run()
    assert lines[:3] == [
        FAIL,
        "NOT MEASURED evil\\x1b[31m\\nname: 6 of 6 rows were not measured and count as not met",
        "NOT MEASURED credit/wrong: k=7 asks for more than the 3 features there are",
    ]
    assert lines[3] == ""
    assert [re.split(r"\s{2,}", line)[0] for line in lines[4:9]] == [
        "gate",
        "credit/shaky",
        "evil\\x1b[31m\\nname",
        "credit/wrong",
        "credit/steady",
    ]
    assert len({len(line) - len(line.split("  ")[-1]) for line in lines[4:9]}) == 1  # verdicts stand below each other
    assert lines[9:] == ["", "4 gates: 1 FAIL, 2 NOT MEASURED, 1 PASS"]
    assert "\x1b" not in "".join(lines)


def test_quiet_says_problems_and_the_count_only(run):
    lines = run("-q")
    assert len(lines) == 4
    assert lines[0] == FAIL
    assert lines[-1] == "4 gates: 1 FAIL, 2 NOT MEASURED, 1 PASS"


def test_verbose_says_what_is_known_beside_the_verdict(run):
    text = "\n".join(run("-v"))
    assert "PASS credit/steady\n    asked: k >= 3 on 90 % of rows\n    test: test_gates.py::test_steady\n" in text
    assert "    explainer: noise 0.01\n    runs: 12\n    measured: 6 of 6\n    cost: 0 model rows in " in text


@pytest.mark.parametrize("columns", [30, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(run, columns):
    lines = run(COLUMNS=str(columns))
    assert max(len(line) for line in lines) <= columns
    text = "\n".join(lines)
    for word in ("FAIL", "NOT MEASURED", "PASS", "verdict", "4 gates"):
        assert word in text
    assert ("(not shown at this width: " in " ".join(text.split())) == (columns < 120)


def test_verdicts_are_coloured_where_colour_is_wanted(run):
    lines = run("--color=yes")
    assert lines[0].startswith("\x1b[1;31mFAIL\x1b[0m credit/shaky: 0 of 6 rows")
    assert lines[-3].endswith("  \x1b[32mPASS\x1b[0m")
    assert "\x1b" not in "".join(run(NO_COLOR="1"))
