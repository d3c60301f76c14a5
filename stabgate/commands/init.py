"""``stabgate init``: a gate that passes as it is written, to begin from."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "write a gate, a configuration and a GitHub workflow to begin from"
DESCRIPTION = (
    "Write a gate test, a model for it, a configuration for stabgate run and a GitHub workflow, with "
    "comments; they pass as written."
)
EPILOG = """examples:
  stabgate init
  stabgate init credit && cd credit && pytest && stabgate run

The gate needs stabgate[lime]. Nothing is overwritten: a file that is there stays as it is.
"""
FILES = {
    "explained_model.py": "explained_model.py",
    "test_explanations.py": "test_explanations.py",
    "stabgate.toml": "stabgate.toml",
    "stabgate.yml": ".github/workflows/stabgate.yml",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="where; this folder by default")
    parser.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    from importlib.resources import files

    from stabgate.errors import InputError
    from stabgate.files import write_text

    folder = Path(options.folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder")
    templates = files("stabgate") / "templates"
    written = 0
    for template, place in FILES.items():
        path = folder / place
        if path.exists() or path.is_symlink():
            print(f"exists, left as it is: {path}")
            continue
        write_text(path, (templates / f"{template}.txt").read_text(encoding="utf-8"))
        print(f"written: {path}")
        written += 1
    where = "" if folder == Path(".") else f"cd {folder} && "
    print(f"next: {where}pytest test_explanations.py, or {where}stabgate run" if written else "nothing to write")
    return 0
