"""What a run says at its end, through pytest itself: problems first, widths, colour, -q, -v."""

from __future__ import annotations

import re

import pytest
import scipy.stats  # noqa: F401
from plugin_gates import NOISY

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import pytest_stabgate.fixture  # noqa: F401

GATES = (
    NOISY
    + """
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
)
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


def test_flags_and_the_terminal_decide_how_it_is_said(run):
    lines = run("-q")
    assert len(lines) == 4
    assert lines[0] == FAIL
    assert lines[-1] == "4 gates: 1 FAIL, 2 NOT MEASURED, 1 PASS"
    text = "\n".join(run("-v", "--color=yes"))
    assert text.startswith("\x1b[1;31mFAIL\x1b[0m credit/shaky: 0 of 6 rows")
    assert (
        "\x1b[32mPASS\x1b[0m credit/steady\n    asked: k >= 3 on 90 % of rows\n    test: test_gates.py::test_steady\n"
        in text
    )
    lines = run("--color=no", COLUMNS="60")
    assert "\x1b" not in "".join(lines)
    assert max(len(line) for line in lines) <= 60
    assert "(not shown at this width: " in " ".join(lines)
    assert "\x1b" not in "".join(run("-q", NO_COLOR="1"))
