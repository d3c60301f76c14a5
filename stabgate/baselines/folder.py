"""The folder of the baselines: one writer at a time, and what git is told to ignore in it."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stabgate.files import locked, write_text

LOCK = ".lock"
IGNORE = ".gitignore"
IGNORED = """# Matrices behind the baselines (large; the same command measures them again), locks, unfinished files.
*.npz
.lock
*.partial
"""


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
