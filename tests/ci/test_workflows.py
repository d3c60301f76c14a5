"""The action and the workflows: their YAML, their permissions, and the action's own script, run here."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".github" / "actions" / "stabgate" / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATE = ROOT / "stabgate" / "templates" / "stabgate.yml.txt"


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> list[dict[str, Any]]:
    found = read(path)
    return found["runs"]["steps"] if "runs" in found else [s for job in found["jobs"].values() for s in job["steps"]]


@pytest.mark.parametrize("path", [*WORKFLOWS, TEMPLATE], ids=lambda path: path.name)
def test_workflows_have_the_least_permissions_and_a_limit_of_time(path):
    found = read(path)
    events = found[True]  # YAML 1.1 reads "on" as true
    assert "pull_request" in events
    assert "pull_request_target" not in path.read_text(encoding="utf-8")
    assert found["permissions"] == {"contents": "read"}
    assert "secrets." not in path.read_text(encoding="utf-8")
    for job in found["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert "permissions" not in job


@pytest.mark.parametrize("path", [*WORKFLOWS, TEMPLATE, ACTION], ids=lambda path: path.name)
def test_actions_are_pinned_and_no_input_becomes_part_of_a_script(path):
    for step in steps(path):
        used = step.get("uses", "")
        assert not used or used.startswith("./.github/") or re.fullmatch(r"actions/[a-z-]+@v\d+", used)
        assert "${{" not in step.get("run", "")
        if "run" in step and path == ACTION:
            assert step["shell"] == "bash"
        if used.startswith("./"):
            given = set(step["with"])
            assert given <= set(read(ACTION)["inputs"])


def test_the_projects_own_workflow_uses_the_action():
    assert any(step.get("uses") == "./.github/actions/stabgate" for path in WORKFLOWS for step in steps(path))


def test_every_input_has_a_description_and_a_default():
    inputs = read(ACTION)["inputs"]
    assert {"config", "requirement", "baseline", "upload-report"} <= set(inputs)
    for entry in inputs.values():
        assert entry["description"]
        assert isinstance(entry["default"], str)
    text = ACTION.read_text(encoding="utf-8")
    for name in inputs:
        assert f"inputs.{name}" in text


@pytest.fixture
def action(tmp_path):
    """The script of the action's step `run`, with a `python` that notes what it was asked."""
    [step] = [step for step in steps(ACTION) if step.get("id") == "run"]
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python"

    def go(*, fake: int | None, **inputs: str) -> tuple[int, str, list[str]]:
        if fake is None:
            python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        else:
            python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > asked\nexit {fake}\n', encoding="utf-8")
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        names = {name: re.search(r"inputs\.([a-z-]+)", text).group(1) for name, text in step["env"].items()}
        defaults = {name: entry["default"] for name, entry in read(ACTION)["inputs"].items()}
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GITHUB"))}
        env |= {name: {**defaults, **inputs}[of] for name, of in names.items()}
        env |= {"PATH": f"{folder}{os.pathsep}{env['PATH']}", "GITHUB_OUTPUT": str(tmp_path / "output")}
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        asked = tmp_path / "asked"
        return done.returncode, done.stdout + done.stderr, asked.read_text().splitlines() if asked.exists() else []

    return go


def test_inputs_become_flags(action, tmp_path):
    code, _, asked = action(fake=0)
    assert code == 0
    assert asked == [
        "-m",
        "stabgate.cli",
        "run",
        "--json=stabgate-report/results.json",
        "--html=stabgate-report/index.html",
        "--markdown=stabgate-report/summary.md",
        "--junit=stabgate-report/junit.xml",
    ]
    inputs = {"config": "a b.toml", "requirement": "-k 3 --share 0.9", "baseline": "credit/shap", "report": "out"}
    code, _, asked = action(fake=3, **inputs)
    assert code == 3
    assert asked[3:9] == ["-k", "3", "--share", "0.9", "--config=a b.toml", "--baseline=credit/shap"]
    assert "exit-code=3" in (tmp_path / "output").read_text()


@pytest.mark.parametrize("text", ["-k 2 --share 0.5\n--max-drop 0.1", "\n-k 2\n\n  --share 0.5\n\t--max-drop 0.1\n"])
def test_every_line_of_the_requirement_counts(action, text):
    code, said, asked = action(fake=0, requirement=text)
    assert code == 0, said
    assert asked[3:-4] == ["-k", "2", "--share", "0.5", "--max-drop", "0.1"]


@pytest.mark.parametrize("lines", [1, 2])
def test_what_an_input_says_is_never_run(action, tmp_path, lines):
    evil = "\n".join(["* $(touch owned) `touch owned` ; touch owned #"] * lines)
    _, _, asked = action(fake=0, requirement=evil, config=evil, baseline=evil)
    assert not (tmp_path / "owned").exists()
    assert asked[3 : 3 + 9 * lines] == evil.split()
    assert f"--config={evil}" in "\n".join(asked)


def test_the_action_runs_a_gate(action, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nrows, means = np.zeros((4, 3)), np.array([3.0, 2.0, 1.0])\n"
        "def explain(X, seed):\n    return means + 0.01 * np.random.default_rng(seed).normal(size=3)\n",
        encoding="utf-8",
    )
    (tmp_path / "gates.toml").write_text(
        '[tool.stabgate]\ndata = "mine:rows"\nexplainer = "mine:explain"\nruns = 10\n', encoding="utf-8"
    )
    code, text, _ = action(fake=None, config="gates.toml", requirement="-k 3 --name mine")
    assert code == 0, text
    assert "1 gate: 1 PASS" in text
    assert {file.name for file in (tmp_path / "stabgate-report").iterdir()} == {
        "results.json",
        "index.html",
        "summary.md",
        "junit.xml",
    }
    assert (tmp_path / "output").read_text() == "exit-code=0\n"


def test_the_other_services_examples_use_the_junit_file():
    gitlab = read(ROOT / "docs" / "ci" / "gitlab-ci.yml")["explanations"]
    assert gitlab["artifacts"]["reports"]["junit"] == "stabgate-report/junit.xml"
    assert gitlab["artifacts"]["when"] == "always"
    assert any("--junitxml=stabgate-report/junit.xml" in line for line in gitlab["script"])
    jenkins = (ROOT / "docs" / "ci" / "Jenkinsfile").read_text(encoding="utf-8")
    assert jenkins.count("stabgate-report/junit.xml") == 2
    assert jenkins.count("{") == jenkins.count("}")
