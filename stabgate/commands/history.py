"""``stabgate history models:/credit``: stability of every measured version of a registered model."""

from __future__ import annotations

import argparse
from typing import Any

HELP = "stability of every measured version of a registered model"
DESCRIPTION = (
    "Every measurement of a registered model that was logged to MLflow, newest first. Records whose "
    "settings differ from the newest of the same gate are marked: their numbers are not comparable."
)
EPILOG = """examples:
  stabgate history models:/credit
  stabgate history models:/credit@champion --tracking-uri http://localhost:5000
  stabgate history models:/credit --csv history.csv --plot history.png
"""
SHOWN = (
    *("version", "aliases", "gate", "requirement", "verdict"),
    *("k", "share", "fass", "retention", "interval", "runs", "when"),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("model", help="models:/NAME, models:/NAME/VERSION or models:/NAME@ALIAS")
    parser.add_argument("--tracking-uri", default=None, help="the store; default: MLFLOW_TRACKING_URI")
    parser.add_argument("--csv", default=None, metavar="FILE", help="write the whole table")
    parser.add_argument("--plot", default=None, metavar="FILE.png", help="draw the values over versions")
    parser.set_defaults(run=_history)


def _history(options: argparse.Namespace) -> int:
    from stabgate.errors import InputError
    from stabgate.report.tables import table
    from stabgate.tracking import history, plot_history

    frame = history(options.model, options.tracking_uri)
    rows = [tuple(_cell(row, name) for name in SHOWN) for _, row in frame.iterrows()]
    kept = [i for i, name in enumerate(SHOWN) if any(row[i] != "-" for row in rows)]
    marks = ["" if same else "*" for same in frame["comparable"]]
    cells = [(*(row[i] for i in kept), mark) for row, mark in zip(rows, marks, strict=True)]
    for line in table(cells, (*(SHOWN[i] for i in kept), ""), frozenset()):
        print(line)
    notes = {f"  {gate}: {differs}" for gate, differs in zip(frame["gate"], frame["differs"], strict=True) if differs}
    if notes:
        print("* not comparable with the newest record of its gate:")
        print("\n".join(sorted(notes)))
    if options.csv:
        try:
            frame.to_csv(options.csv, index=False)
        except OSError as error:
            raise InputError(f"--csv={options.csv}: cannot be written ({error.strerror or error})") from error
    if options.plot:
        plot_history(frame, options.plot)
    return 0


def _cell(row: Any, name: str) -> str:
    if name == "interval":
        low, high = row["low"], row["high"]
        return "-" if low is None or low != low else f"{low:.3f} to {high:.3f}"
    value = row[name]
    if name == "when":
        return f"{value:%Y-%m-%d %H:%M}"
    if value is None or value != value or value == "":
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
