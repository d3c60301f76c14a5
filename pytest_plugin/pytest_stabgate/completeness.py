"""Whether every gate there is came to a verdict in this session: only then is a baseline that no gate used unused."""

from __future__ import annotations

import ast
import glob
from collections.abc import Generator, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stabgate.report.session import GateReport

FIXTURE = "stabgate"
SHOWN = 3  # tests that a reason names
COLLECTING = ("python_files", "python_classes", "python_functions", "testpaths", "norecursedirs")  # ini keys
NARROWING = ("--ignore", "--ignore-glob")  # flags that leave files out without a word


class Completeness:
    """Watches collection and outcomes, in every process; the workers of xdist send what they saw to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.expected: set[str] = set()  # tests with a gate that were to run
        self.left_out: set[str] = set()  # tests with a gate, or perhaps with one, that were collected and not to run
        self.broken: set[str] = set()  # files that could not be collected, or were skipped as a whole
        self.errors: set[str] = set()  # those that could not be collected
        self.ignored: set[str] = set()  # files with tests, or folders of them, that a conftest leaves out
        self.crashed = 0  # workers
        self.outcomes: dict[str, dict[str, str]] = {}  # by test and phase

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> Generator[None, bool | None, bool | None]:
        ignored = yield
        if ignored and _has_tests(collection_path, self._config):
            self.ignored.add(str(collection_path))
        return ignored

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        # Compared before and after: not every plugin that takes items away says so.
        everything = {item.nodeid for item in items if _may_have_gates(item)}
        yield
        self.left_out |= everything - {item.nodeid for item in items}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.expected |= {item.nodeid for item in session.items if FIXTURE in getattr(item, "fixturenames", ())}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.broken.add(report.nodeid)
        if report.failed:
            self.errors.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            self.outcomes[report.nodeid] = {}  # of a test that is run again the last attempt counts
        self.outcomes.setdefault(report.nodeid, {})[str(report.when)] = report.outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        sent = getattr(node, "workeroutput", {}).get(FIXTURE)
        if error or sent is None:
            self.crashed += 1
        else:
            self.expected |= set(sent["expected"])
            self.left_out |= set(sent["left_out"])
            self.broken |= set(sent["broken"])
            self.ignored |= set(sent["ignored"])
            self.errors |= set(sent["errors"])

    def sent(self) -> dict[str, list[str]]:
        """What a worker saw, as plain values."""
        return {name: sorted(getattr(self, name)) for name in ("expected", "left_out", "broken", "ignored", "errors")}

    def passed(self, test: str) -> bool:
        """Whether a test ran to its end and passed."""
        found = self.outcomes.get(test, {})
        return all(found.get(phase) == "passed" for phase in ("setup", "call", "teardown")) and len(found) == 3

    def unfinished(self, gates: Sequence[GateReport]) -> list[str]:
        """Why this is no session that passed, whatever its gates say: what failed, crashed or did not run."""
        not_run, _, failed = self._unjudged(gates)
        return self._broken(not_run, failed, self.errors, "could not be collected")

    def missing(self, gates: Sequence[GateReport]) -> list[str]:
        """Why not every gate came to a verdict; empty where each did."""
        not_run, skipped, failed = self._unjudged(gates)
        unmeasured = {gate.name for gate in gates if gate.verdict is None} if not skipped else set()
        reasons = [
            _asked(self._config),
            _narrowed(self._config),
            *self._broken(not_run, failed, self.broken, "could not be collected or were skipped as a whole"),
            _several(self.ignored, "were not collected (collect_ignore of a conftest, or a plugin)"),
            _several(self.left_out, "were left out (-k, -m, --deselect, --lf, or a plugin that shards)"),
            _several(skipped, "were skipped"),
            _several(unmeasured, "came to no verdict"),
        ]
        return [reason for reason in reasons if reason]

    def _unjudged(self, gates: Sequence[GateReport]) -> tuple[set[str], set[str], set[str]]:
        """Tests with gates that did not run, were skipped, and failed before their last gate."""
        of_test: dict[str, list[GateReport]] = {}
        for gate in gates:
            of_test.setdefault(gate.test, []).append(gate)
        not_run, skipped, failed = set(), set(), set()
        for test in self.expected:
            found = self.outcomes.get(test)
            if not found:
                not_run.add(test)
            elif "skipped" in found.values():
                skipped.add(test)
            elif not self.passed(test) and not _failed_at_its_last_gate(found, of_test.get(test, [])):
                failed.add(test)
        return not_run, skipped, failed

    def _broken(self, not_run: set[str], failed: set[str], files: set[str], what: str) -> list[str]:
        reasons = [
            f"{self.crashed} workers crashed" if self.crashed else "",
            _several(files, what),
            _several(not_run, "did not run"),
            _several(failed, "failed, and gates further down in them may not have run"),
        ]
        return [reason for reason in reasons if reason]


def _may_have_gates(item: pytest.Item) -> bool:
    """Uses the fixture, or could ask for it as it runs."""
    names = getattr(item, "fixturenames", ())
    return FIXTURE in names or "request" in names


def _has_tests(path: Path, config: pytest.Config) -> bool:
    """Whether a path that is not collected has tests: caches, environments and the like are never collected."""
    usual = ("__pycache__", *config.getini("norecursedirs"))
    if any(fnmatch(path.name, pattern) for pattern in usual) or (path / "pyvenv.cfg").exists():
        return False
    files = path.rglob("*.py") if path.is_dir() else [path]
    return any(fnmatch(file.name, pattern) for file in files for pattern in config.getini("python_files"))


def _asked(config: pytest.Config) -> str:
    """What was asked for, where that is less than everything there is."""
    start = config.invocation_params.dir
    asked = [(start / arg).resolve() for arg in config.args if "::" not in arg]
    found = [glob.glob(str(config.rootpath / path), recursive=True) for path in config.getini("testpaths")]
    roots = [Path(path).resolve() for paths in found for path in paths] or [config.rootpath.resolve()]
    if all(any(root == path or path in root.parents for path in asked) for root in roots):
        return ""
    return f"only {', '.join(map(str, config.args[:SHOWN]))}{', ...' * (len(config.args) > SHOWN)} was asked for"


def _narrowed(config: pytest.Config) -> str:
    flags = [flag for flag in NARROWING if any(a.split("=")[0] == flag for a in config.invocation_params.args)]
    if config.getoption("lf", False):
        flags.append("--lf")
    overridden = [text.split("=")[0] for text in config.getoption("override_ini", None) or []]
    flags += [f"-o {key}" for key in overridden if key in COLLECTING]
    if config.getoption("collectonly", False):
        flags.append("--collect-only")
    return f"{', '.join(flags)} left tests out" if flags else ""


def _several(names: set[str], what: str) -> str:
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f"{what}: {shown}"


def _failed_at_its_last_gate(found: Mapping[str, str], gates: Sequence[GateReport]) -> bool:
    """Whether what failed was a gate with a verdict, and nothing below it in the test could be another one."""
    if found.get("setup") != "passed" or found.get("teardown") != "passed" or not gates:
        return False
    last = gates[-1]
    return last.verdict is not None and last.blocks and last.place is not None and _is_last(last.test, *last.place)


def _is_last(test: str, file: str, line: int) -> bool:
    """Whether the call in this line is the last assertion of the test's own function, and in no loop."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    name = test.split("::")[-1].split("[")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and node.lineno <= line <= (node.end_lineno or 0):
            inside = [n for n in ast.walk(node) if isinstance(n, ast.For | ast.While) and _holds(n, line)]
            calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
            later = [n for n in calls if n.lineno > line and getattr(n.func, "attr", "").startswith("assert_")]
            return not inside and not later
    return False


def _holds(node: ast.For | ast.While, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)
