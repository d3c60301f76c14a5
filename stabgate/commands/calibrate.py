"""``stabgate calibrate``: A/A runs of gates, and the runs, requirement and margin that they suggest."""

from __future__ import annotations

import argparse
import subprocess
import sys

REPEATS = 8
HELP = "repeat gates with an unchanged model; suggest runs, requirement and margin"
DESCRIPTION = (
    "Measures every selected gate several times, with the same model and disjoint seeds, and says how "
    "often it would fail or be inconclusive although nothing changed, and which runs, requirement and max_drop "
    "would seldom do so."
)
EPILOG = """examples:
  stabgate calibrate tests/test_explanations.py
  stabgate calibrate tests/test_explanations.py::test_order --repeats 12 --stabgate-runs=30
  stabgate calibrate -m stabgate -n 2

Whatever is not an option of calibrate goes to pytest. Nothing passes or fails: each measurement is repeated under seeds
of its own, and the gates' requirements are compared with what an unchanged model would do.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help=f"measurements (default {REPEATS})")
    parser.set_defaults(run=_calibrate, passes_on=True)


def _calibrate(options: argparse.Namespace) -> int:
    from stabgate.errors import InputError

    if options.repeats < 3:
        raise InputError(f"--repeats={options.repeats}: a spread needs at least 3 measurements")
    command = [sys.executable, "-m", "pytest", *options.rest, f"--stabgate-calibrate={options.repeats}"]
    code = subprocess.run(command, check=False).returncode
    if code == 5:
        raise InputError("pytest collected no test: name the file or test that has the gate")
    return code
