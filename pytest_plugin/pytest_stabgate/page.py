"""The HTML page that a session ends with: its flag, its ini key, and where it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

HTML = "html"  # flag and ini key, behind --stabgate- and stabgate_
TEXT = "write what was found as one HTML page that needs no network"


def add_html(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Flag and ini key."""
    group.addoption(f"--stabgate-{HTML}", dest=f"stabgate_{HTML}", default=None, metavar="FILE", help=TEXT)
    parser.addini(f"stabgate_{HTML}", help=f"{TEXT}; relative to the root folder", default=None)


def html_file(config: pytest.Config) -> Path | None:
    """Where the page goes; None where none is asked for."""
    flag, ini = config.getoption(f"stabgate_{HTML}"), config.getini(f"stabgate_{HTML}")
    if flag is not None:
        return Path(config.invocation_params.dir, flag)
    return Path(config.rootpath, ini) if ini else None


def check_html_file(config: pytest.Config) -> Path | None:
    """`html_file`, refused before anything is measured where no page could be written.

    Raises:
        pytest.UsageError: an empty name, a folder, or a package that is missing.
    """
    from stabgate.errors import MissingDependencyError

    file, flag = html_file(config), config.getoption(f"stabgate_{HTML}")
    if flag is not None and not flag.strip():
        raise pytest.UsageError(f"--stabgate-{HTML} is empty: it names a file")
    document = config.getoption("stabgate_json")
    if file is not None:
        if document and Path(config.invocation_params.dir, document).resolve() == file.resolve():
            raise pytest.UsageError(
                f"--stabgate-html and --stabgate-json both name {file}: give each a file of its own"
            )
        if file.is_dir():
            raise pytest.UsageError(f"--stabgate-{HTML}: {file} is a folder; give the name of a file")
        from stabgate.report.html import check_html

        try:
            check_html()
        except MissingDependencyError as error:
            raise pytest.UsageError(f"--stabgate-{HTML}: {error}") from error
    return file
