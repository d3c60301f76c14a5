"""Every block of code in README and docs runs.

A page is read as a project: its blocks run in order in one empty folder.

- `python` that begins with a comment that names a file (``# test_x.py``) becomes that file; other Python runs at once,
  and the blocks of a page share their names, as in a notebook.
- `sh`: ``pytest``, ``stabgate`` and ``python FILE`` run, ``make`` must be a target; ``pip`` and ``git`` are only read.
  ``<!-- exit: 1 -->`` before a block says that it must end so; 0 otherwise.
- `text` right behind it: each of its lines must be in what the command printed, whatever the digits; ``...`` stands for
  lines left out.
- `yaml`, `toml`, `json`, `groovy` are parsed, and the commands in them are checked for flags that do not exist.
- A test file that no command ran is run at the end of its page.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from threadpoolctl import threadpool_limits

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import lime.lime_tabular  # noqa: F401  isort: skip
import shap  # noqa: F401
import sklearn.datasets
import sklearn.ensemble
import sklearn.linear_model  # noqa: F401
import torch  # noqa: F401

import pytest_stabgate.fixture  # noqa: F401
from stabgate.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^>]*) -->\n)?^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```",
    re.M | re.S,
)
SNIPPET = re.compile(r'^--8<-- "([^"]+)"\n', re.M)
LANGUAGES = {"python", "sh", "text", "yaml", "toml", "json", "groovy"}
NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml|ini|yml|yaml))\n")


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    note: str
    line: int
    follows: bool  # nothing stands between the block before and this one

    @property
    def file(self) -> str:
        named = NAMED.match(self.body)
        return named.group(1) if named else ""


def blocks_of(path: Path) -> list[Block]:
    text = SNIPPET.sub(lambda m: (ROOT / "docs" / m[1]).read_text(encoding="utf-8"), path.read_text(encoding="utf-8"))
    found = []
    end = 0
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        body = "".join(line[indent:] or "\n" for line in match["body"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("language")) + 1
        found.append(
            Block(
                match["language"],
                body,
                match["note"] or "",
                line,
                bool(found) and not text[end : match.start()].strip(),
            )
        )
        end = match.end()
    return found


CODE = [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in PAGES if blocks_of(path)]


@pytest.mark.parametrize("path", CODE)
def test_the_code_of_a_page_runs(path, request, capfd, monkeypatch):
    # Threads that wait for each other cost more than fits this small bring.
    with threadpool_limits(1), mlflow_as_it_was("import mlflow" in path.read_text(encoding="utf-8")):
        pytester = request.getfixturevalue("pytester")  # what is loaded from here on is forgotten with it
        monkeypatch.setenv("STABGATE_CACHE", str(pytester.path / ".cache"))  # a second look at a gate costs nothing
        monkeypatch.setenv("COLUMNS", "160")
        page = Page(path, pytester, capfd, monkeypatch)
        for block in blocks_of(path):
            page.take(block)
        for file in list(page.waiting):
            page.pytest(["-q", file], 0)


class Page:
    """A page as a project: its folder, its files that wait to be run, its names, and what was printed last."""

    def __init__(self, path, pytester, capfd, monkeypatch) -> None:
        self.name, self.pytester, self.capfd, self.monkeypatch = path.name, pytester, capfd, monkeypatch
        self.where = path.name
        self.waiting: list[str] = []
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.printed = ""

    def take(self, block: Block) -> None:
        self.where = f"{self.name}, line {block.line}"
        assert block.language in LANGUAGES, f"{self.where}: a block says what it is: {', '.join(sorted(LANGUAGES))}"
        if block.file:
            self._write(block)
        if block.language == "text":
            if block.follows:
                _compare(block.body, self.printed, self.where)
        elif block.language == "sh":
            code = int(block.note.removeprefix("exit: ")) if block.note.startswith("exit: ") else 0
            self.printed = "".join(self._command(line, code) for line in _lines(block.body))
        elif block.language == "python" and not block.file:
            self.capfd.readouterr()
            exec(compile(block.body, self.where, "exec"), self.names)
            self.printed = self.capfd.readouterr().out
        elif block.language != "python":
            _parsed(block, self.where)

    def _write(self, block: Block) -> None:
        file = self.pytester.path / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.body, encoding="utf-8")
        if file.name.startswith("test_") and block.file not in self.waiting:
            self.waiting.append(block.file)

    def _command(self, line: str, code: int) -> str:
        program, *arguments = shlex.split(line)
        if program == "pytest":
            named = [argument.split("::")[0] for argument in arguments]
            some = [file for file in self.waiting if file in named]
            self.waiting = [file for file in self.waiting if some and file not in some]
            return self.pytest(arguments, code)
        if program == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
            assert {a for a in arguments if "=" not in a} <= set(targets), f"{self.where}: no such target: {line}"
        elif program == "export":
            for setting in arguments:
                self.monkeypatch.setenv(*setting.split("=", 1))
        elif program in ("stabgate", "python"):
            self.waiting = [file for file in self.waiting if file not in arguments]  # calibrate runs them
            self.capfd.readouterr()
            try:
                found = main(arguments) if program == "stabgate" else runpy.run_path(arguments[0]) and 0
            except SystemExit as stop:
                found = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            out = "".join(self.capfd.readouterr())
            assert found == code, f"{self.where}: {line} ended with {found}:\n{out}"
            return out
        else:
            assert program in ("pip", "git"), f"{self.where}: {program} is neither run nor known to be only read"
        return ""

    def pytest(self, arguments: list[str], code: int) -> str:
        spread = any(argument.startswith("-n") for argument in arguments)
        run = self.pytester.runpytest_subprocess if spread else self.pytester.runpytest_inprocess
        result = run("-p", "no:cacheprovider", *arguments)
        text = result.stdout.str() + result.stderr.str()
        assert result.ret == code, f"{self.where}: pytest {shlex.join(arguments)} ended with {result.ret}:\n{text}"
        return text


@contextmanager
def mlflow_as_it_was(used: bool) -> Iterator[None]:
    """MLflow is loaded for good (it replaces how packages are found), and forgets where a page's store was."""
    if not used:
        yield
        return
    import mlflow
    from mlflow.tracking import fluent

    yield
    mlflow.set_tracking_uri(None)
    fluent._active_experiment_id = None
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)


def _lines(body: str) -> list[str]:
    joined = body.replace("\\\n", " ")
    return [line.split(" #")[0].strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def _compare(expected: str, printed: str, where: str) -> None:
    found = {_shape(line) for line in printed.splitlines()}
    lost = [line for line in expected.splitlines() if line.strip() not in ("", "...") and _shape(line) not in found]
    assert lost == [], f"{where}: not printed: {lost}\nprinted was:\n{printed}"


def _shape(line: str) -> str:
    """A line without its digits, the widths that depend on them, and what pytest puts before a message."""
    line = re.sub(r"\d[\d.,e+-]*", "#", re.sub(r"^E  +(stabgate\.errors\.\w+: )?", "", line))
    return re.sub(r"\s+", " ", re.sub(r"([-=])\1{2,}", r"\1", line)).strip()


def _parsed(block: Block, where: str) -> None:
    if block.language == "toml":
        tomllib.loads(block.body)
    elif block.language == "json":
        json.loads(block.body)
    elif block.language == "yaml":
        found = yaml.safe_load(block.body)
        assert isinstance(found, dict), where
        jobs = found["jobs"].values() if "jobs" in found else ()
        assert all({"runs-on", "steps"} <= set(job) for job in jobs), f"{where}: a job of GitHub has runs-on and steps"
    elif block.language == "groovy":
        assert block.body.count("{") == block.body.count("}"), where
        assert re.search(r"^pipeline \{", block.body, re.M), where


def test_flags_keys_and_commands_that_are_named_exist():
    """Also those in running text, tables, YAML and Jenkinsfiles."""
    known = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    lost = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        names = {*re.findall(r"--stabgate-[a-z-]+[a-z]", text), *re.findall(r"\bstabgate_(?!gates)[a-z_]+[a-z]", text)}
        lines = [line for block in blocks_of(path) if block.language == "sh" for line in _lines(block.body)]
        commands = {
            "### " + found
            for found in re.findall(r"`(stabgate [a-z]+)(?=[ `])", "\n".join([text, *map("`{} ".format, lines)]))
        }
        lost += [f"{path.name}: {name}" for name in sorted(names | commands) if name not in known]
    assert lost == []


def test_names_of_the_library_that_are_mentioned_exist():
    import stabgate

    lost = []
    for path in PAGES:
        for name in re.findall(r"\bsg\.([A-Za-z_.]+[A-Za-z_])", path.read_text(encoding="utf-8")):
            found: object = stabgate
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is None:
                lost.append(f"{path.name}: sg.{name}")
    assert lost == []
