"""What commands print of a run: the same lines as pytest, in colour where that is wanted."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabgate.report.session import SessionReport


def say(report: SessionReport, verbosity: int) -> None:
    """Print problems, tables and the count; no test's failure has shown the messages of the gates."""
    from stabgate.report.terminal import paint, terminal

    for line in terminal(report.gates, width=width(), verbosity=verbosity, messages=True):
        print(paint(line, colour=coloured()))


def width() -> int | None:
    """Columns of the terminal; None where the output goes into a file or a log, which have none."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns


def coloured() -> bool:
    """NO_COLOR and FORCE_COLOR say so (no-color.org); without them a terminal has colour, and nothing else."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
