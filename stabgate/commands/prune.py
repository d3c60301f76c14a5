"""``stabgate prune``: delete the baselines that no gate uses."""

from __future__ import annotations

import argparse

HELP = "delete the baselines that no gate uses"
DESCRIPTION = "Delete the baselines, with their matrices, that no gate of a complete run used."
EPILOG = """examples:
  pytest --stabgate-json=results.json && stabgate prune results.json

Only a complete run says which baselines are unused: every gate was collected, ran and came to a verdict. What was not
there when it ended is left alone.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("report", metavar="REPORT.json")
    parser.add_argument(
        "--baselines", default=None, metavar="DIR", help="default: the one that the report names, in this project"
    )
    parser.set_defaults(run=_prune)


def _prune(options: argparse.Namespace) -> int:
    from pathlib import Path

    from stabgate.baselines.adopting import prune
    from stabgate.baselines.folder import reported_folder, shown
    from stabgate.baselines.store import Baselines
    from stabgate.report.session import SessionReport

    report = SessionReport.load(options.report)
    baselines = Baselines(options.baselines or shown(reported_folder(report.baselines, Path(options.report))))
    done = prune(report, baselines)
    for path in done.deleted:
        print(f"deleted {path}")
    for problem in done.left:
        print(f"left alone: {problem}")
    if not done.deleted:
        print(f"nothing to delete in {baselines.folder}")
    return 0
