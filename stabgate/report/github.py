"""What GitHub Actions is told beside the log: annotations at the lines of the gates, and the summary of the step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from stabgate.report.markdown import LIMIT, markdown
from stabgate.report.plain import plain
from stabgate.report.session import GateReport, SessionReport
from stabgate.report.tables import standing
from stabgate.report.terminal import reason
from stabgate.verdict.verdicts import Outcome

MOST = 50  # annotations; GitHub shows ten of a kind for each step
LONGEST = 2000  # characters of a message


def on_github(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process runs in a workflow of GitHub Actions."""
    return (os.environ if environment is None else environment).get("GITHUB_ACTIONS") == "true"


def tell_github(report: SessionReport, write: Callable[[str], object]) -> None:
    """Annotations through `write`, a line each, and the summary of the step; nothing where this is not GitHub."""
    if not on_github():
        return
    for command in commands(report):
        write(command)
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    problem = append_summary(report, path) if path else ""
    if problem:
        write(f"::warning title=stabgate::{_data(plain(problem))}")


def commands(report: SessionReport) -> Iterator[str]:
    """One workflow command for each gate that did not pass: an error where it fails the build, a warning elsewhere."""
    problems = [gate for gate in report.gates if gate.outcome is not Outcome.PASS]
    for gate in problems[:MOST]:
        yield _annotation(gate)
    if len(problems) > MOST:
        kind = "error" if any(gate.blocks for gate in problems[MOST:]) else "warning"
        yield f"::{kind} title=stabgate::and {len(problems) - MOST} more gates did not pass"


def append_summary(report: SessionReport, path: str | os.PathLike[str]) -> str:
    """Append the report to the file of GITHUB_STEP_SUMMARY; returns why that was not possible, or "".

    What earlier commands of the step wrote there counts against the limit of the file.
    """
    try:
        target = Path(path)
        present = target.stat().st_size if target.exists() else 0
        room = LIMIT - present
        if room < LIMIT // 100:
            return f"the summary of the step is full ({present:,} bytes)"
        with target.open("a", encoding="utf-8") as file:
            file.write(markdown(report, limit=room - 2) + "\n\n")
    except OSError as error:
        return f"the summary of the step cannot be written ({path}: {error.strerror or error})"
    return ""


def _annotation(gate: GateReport) -> str:
    kind = "error" if gate.blocks else "warning"
    properties = {"title": f"stabgate: {gate.outcome}: {plain(gate.name)[:200]}"}
    if gate.place is not None:
        properties = {"file": _relative(gate.place[0]), "line": str(gate.place[1]), **properties}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = f"{gate.name}{standing(gate)}: {reason(gate) or gate.outcome}"
    return f"::{kind} {listed}::{_data(plain(message)[:LONGEST])}"


def _relative(file: str) -> str:
    """The path from the root of the checkout, as GitHub wants it; as it is where it lies elsewhere."""
    root = os.environ.get("GITHUB_WORKSPACE", "")
    path = Path(file)
    try:
        return path.resolve().relative_to(Path(root or ".").resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
