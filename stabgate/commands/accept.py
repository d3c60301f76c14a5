"""``stabgate accept``: what a run measured, in CI for example, becomes the baseline."""

from __future__ import annotations

import argparse

HELP = "make what a run measured the baseline"
DESCRIPTION = "Make what a run measured the baselines of its regression gates: of all, or of those named."
EPILOG = """examples:
  stabgate accept results.json --reason "retrained on March data"
  stabgate accept results.json credit/shap --reason "fewer background rows"

REPORT.json is what pytest --stabgate-json=REPORT.json wrote. All named gates are accepted, or none is.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("report", metavar="REPORT.json")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a baseline; all of the report by default")
    parser.add_argument("--reason", required=True, help="why; it is kept in the baseline")
    parser.add_argument(
        "--baselines", default=None, metavar="DIR", help="default: the one that the report names, in this project"
    )
    parser.set_defaults(run=_accept)


def _accept(options: argparse.Namespace) -> int:
    from pathlib import Path

    from stabgate.baselines.adopting import accept
    from stabgate.baselines.folder import reported_folder, shown
    from stabgate.baselines.store import Baselines
    from stabgate.report.session import SessionReport

    report = SessionReport.load(options.report)
    baselines = Baselines(options.baselines or shown(reported_folder(report.baselines, Path(options.report))))
    for name, what in accept(report, options.names, baselines, reason=options.reason):
        print(f"{name}: {what}, {baselines.path(name)}")
    return 0
