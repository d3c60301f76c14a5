"""On GitHub, through pytest itself: annotations at the line of the assertion, the summary of the step; and JUnit."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from textwrap import dedent

import pytest
from plugin_gates import NOISY

GATES = (
    dedent(NOISY)
    + """
def test_steady(stabgate):
    stabgate.assert_min_k_stability(noisy(0.01), X, k=3, share=0.9, name="credit/steady")

def test_shaky(stabgate):
    stabgate.assert_min_k_stability(noisy(2.0), X, k=3, share=0.9, name="evil\\x1b[31m,a:b\\n::error::\\x00 100%")

def test_long(stabgate):
    def explain(X, seed):
        raise RuntimeError("no licence \\x07" * 20_000)
    stabgate.assert_min_k_stability(sg.explainers.Custom(explain), X, k=2, name="credit/long")
"""
)
LINE = 1 + next(i for i, line in enumerate(GATES.splitlines()) if "evil" in line)


@pytest.fixture
def run(pytester: pytest.Pytester):
    pytester.makepyfile(test_gates=GATES)

    def go(*flags: str, **env: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GITHUB"))}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--stabgate-runs=12", *flags]
        return subprocess.run(
            command, cwd=pytester.path, env={**kept, **env}, capture_output=True, text=True, timeout=200
        )

    return go


@pytest.mark.parametrize("flags", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_annotations_and_summary_come_from_the_controller_once(run, pytester, flags):
    summary = pytester.path / "summary.md"
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_WORKSPACE": str(pytester.path),
    }
    done = run(*flags, "--junitxml=out.xml", **github)
    assert done.returncode == 1
    said = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert len(said) == 2
    assert said[0].startswith(
        f"::error file=test_gates.py,line={LINE - 1},title=stabgate%3A FAIL%3A evil\\x1b[31m%2Ca%3Ab\\n%3A%3Aerror"
    )
    assert "0 of 6 rows meet k >= 3, 6 are needed (90 %25)" in said[0]
    assert ",title=stabgate%3A NOT MEASURED%3A credit/long::" in said[1]
    text = summary.read_text(encoding="utf-8")
    assert text.count("## ❌ stabgate: 2 of 3 gates do not pass") == 1

    suite = ET.parse(pytester.path / "out.xml").getroot()[0]
    cases = {case.get("name"): case for case in suite}
    assert set(cases) == {"test_steady", "test_shaky", "test_long"}
    assert {case.get("classname") for case in suite} == {"test_gates"}
    found = {entry.get("name"): entry.get("value") for entry in cases["test_steady"].iter("property")}
    assert found["stabgate.credit/steady.verdict"] == "PASS"
    assert float(found["stabgate.credit/steady.estimate"]) == 1.0
    assert int(found["stabgate.credit/steady.instances"]) == 6
    long = cases["test_long"].find("failure").text
    message = "\n".join(line.removeprefix("E   ") for line in long.splitlines() if line.startswith("E   "))
    assert len(message.encode()) < 8500
    assert "... cut here: " in message
    assert "stabgate-json=FILE" in message
    assert message.rstrip().endswith("replay: pytest test_gates.py::test_long --stabgate-runs=12")


def test_nothing_of_it_elsewhere(run, pytester):
    summary = pytester.path / "summary.md"
    done = run("-k", "shaky", GITHUB_ACTIONS="false", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert "::error file" not in done.stdout
    assert not summary.exists()
