"""``stabgate compare A B``: two documents side by side, gate by gate: what improved, what fell, what differs."""

from __future__ import annotations

import argparse

HELP = "two reports or baselines side by side"
DESCRIPTION = "Say which gates improved or fell between two documents, and what differs where they cannot be compared."
EPILOG = """examples:
  stabgate compare before.json after.json
  stabgate compare stabgate-baselines results.json --max-drop 0.1
  stabgate compare stabgate-baselines/credit/shap.json results.json

A and B are what pytest --stabgate-json or stabgate run --json wrote, a baseline, or a folder of baselines. A is the
earlier one. Gates go by the name of their baseline, or their own.

exit codes: 0 compared; with --max-drop: 1 a value fell by more and significantly so, 3 none did and at least one could
not be compared; 2 wrong usage.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    parser.add_argument("--max-drop", type=float, default=None, metavar="X", help="by how much a value may fall")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    from stabgate.comparing import compare_documents, exit_code, lines

    compared = compare_documents(options.before, options.after, max_drop=options.max_drop)
    for line in lines(compared, options.before, options.after):
        print(line)
    return exit_code(compared) if options.max_drop is not None else 0
