"""``stabgate waive``: let a known failure pass, visibly, until a date."""

from __future__ import annotations

import argparse

HELP = "let a known failure pass until a date"
DESCRIPTION = "Let a gate that fails pass, visibly, until a date."
EPILOG = """examples:
  stabgate waive credit/shap --until 2026-12-31 --reason "new model in December, TICKET-12"

The gate passes with a warning while it fails or is inconclusive, up to and including the date; after it, it fails
again. What was not measured is never waived. To end a waiver early, take its line out of waivers.json.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("name", metavar="NAME", help="of the gate, as the table at the end of a run has it")
    parser.add_argument("--until", required=True, metavar="YYYY-MM-DD", help="the last day on which it passes")
    parser.add_argument("--reason", required=True)
    parser.add_argument("--baselines", default=None, metavar="DIR", help="default: the project's")
    parser.set_defaults(run=_waive)


def _waive(options: argparse.Namespace) -> int:
    from pathlib import Path

    from stabgate.baselines.folder import project_folder, shown, whoami
    from stabgate.baselines.waivers import WAIVERS, add_waiver

    folder = Path(options.baselines) if options.baselines else shown(project_folder())
    waiver = add_waiver(folder, options.name, until=options.until, reason=options.reason, by=whoami())
    print(f"{options.name} is waived {waiver} ({folder / WAIVERS})")
    return 0
