"""The folder of the baselines: one writer at a time, and what git is told to ignore in it."""

from __future__ import annotations

import getpass
import os
import subprocess
import tomllib
from collections.abc import Iterator
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from pathlib import Path

from stabgate.baselines import FOLDER
from stabgate.errors import InputError
from stabgate.files import locked, write_text

# Where a project may say which folder it is: stabgate's own file, and pytest's in the order in which pytest reads them.
CONFIGURATIONS = (
    "stabgate.toml",
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
LOCK = ".lock"
IGNORE = ".gitignore"
IGNORED = """# Matrices behind the baselines (large; the same command measures them again), locks, unfinished files.
*.npz
.lock
*.partial
"""


def project_folder(start: Path | None = None) -> Path:
    """The folder of a project's baselines, looked for from `start` (this folder) upwards.

    It is the one that a configuration names (``baselines`` in [tool.stabgate], ``stabgate_baselines`` of pytest), or
    the one of the usual name; where there is neither, that one beside the nearest configuration, or in `start`.

    Raises:
        InputError: a configuration cannot be read.
    """
    here = (Path.cwd() if start is None else Path(start)).resolve()
    passed = _upwards(here)
    for folder in passed:
        named = _named(folder)
        if named or (folder / FOLDER).is_dir():
            return folder / (named or FOLDER)
    homes = [folder for folder in passed if any((folder / name).is_file() for name in CONFIGURATIONS)]
    return (homes or [here])[0] / FOLDER


def portable(folder: Path, root: Path) -> str:
    """How a report calls its baselines' folder, so that it is found wherever the project lies: from the top of the git
    repository, or from `root` where there is none; the whole path where it lies elsewhere.
    """
    top = top_of(root)
    folder = folder.resolve()
    return folder.relative_to(top).as_posix() if folder.is_relative_to(top) else str(folder)


def reported_folder(named: str, report: Path) -> Path:
    """The folder that a report calls `named` (as `portable` does): the one that is there, looked for from here and from
    the report upwards; where there is none yet, in the project that this folder belongs to.
    """
    if not named:
        return project_folder()
    here = Path.cwd().resolve()
    for start in (here, report.resolve().parent):
        for folder in _upwards(start):
            if (folder / named).is_dir():
                return folder / named
    return top_of(here) / named


def shown(folder: Path) -> Path:
    """A folder as it is called from here, where it lies below."""
    here = Path.cwd().resolve()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def top_of(start: Path) -> Path:
    """The top of the git repository that a folder lies in; else the nearest folder with a configuration, or itself."""
    passed = _upwards(start.resolve())
    if (passed[-1] / ".git").exists():
        return passed[-1]
    homes = [folder for folder in passed if any((folder / name).is_file() for name in CONFIGURATIONS)]
    return (homes or passed)[0]


def _upwards(start: Path) -> list[Path]:
    """A folder and those above it, up to the top of a git repository."""
    passed = []
    for folder in (start, *start.parents):
        passed.append(folder)
        if (folder / ".git").exists():
            break
    return passed


def _named(folder: Path) -> str:
    """What the configuration in a folder calls the folder of the baselines; empty where it does not."""
    from pytest_stabgate.settings import ini_keys

    for name in CONFIGURATIONS:
        path = folder / name
        if not path.is_file():
            continue
        try:
            named = ini_keys(path).get("baselines")
            if path.suffix == ".toml":
                own = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("stabgate", {})
                named = own.get("baselines") or named
        except (OSError, ValueError, AttributeError, ConfigParserError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from error
        if isinstance(named, str) and named:
            return named
    return ""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only process that writes into this folder.

    Raises:
        InputError: it cannot be written to, or another process does not let go of it.
    """
    with locked(folder / LOCK):
        if not (folder / IGNORE).exists():
            write_text(folder / IGNORE, IGNORED)
        yield


def sweep(path: Path) -> None:
    """Remove what a writer of this file left that was killed; only within `writing`."""
    for partial in path.parent.glob(f".{path.name[:40]}.*.partial"):
        partial.unlink(missing_ok=True)


def whoami() -> str:
    """Who accepts a baseline or gives a waiver: git's user, or that of the system."""
    name, mail = _git("user.name"), _git("user.email")
    if name or mail:
        return f"{name} <{mail}>".strip() if mail else name
    try:
        return os.environ.get("GITHUB_ACTOR") or getpass.getuser()
    except (KeyError, OSError):  # no such user in a container
        return "unknown"


def _git(key: str) -> str:
    try:
        found = subprocess.run(["git", "config", key], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
