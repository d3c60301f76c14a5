"""The command ``stabgate``: thin, every command is a module of `stabgate.commands` and calls the library.

Such a module has HELP, DESCRIPTION, EPILOG and `add`, which gives its parser arguments and what to `run`.

Exit codes: 0 done, 1 it failed, 3 it did not fail and something was not measured, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = (
    "accept",
    "cache",
    "calibrate",
    "compare",
    "doctor",
    "history",
    "init",
    "mlflow",
    "prune",
    "report",
    "run",
    "waive",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, which is the command's whether or not anybody reads what it prints."""
    from stabgate.commands.output import guarded
    from stabgate.errors import StabgateError

    with guarded("stderr"):
        try:
            with guarded("stdout"):
                return _command(arguments)
        except StabgateError as error:
            print(f"stabgate: {error}", file=sys.stderr)
            return 2


def _command(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and not getattr(options, "passes_on", False):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    from stabgate import __version__

    parser = argparse.ArgumentParser(prog="stabgate", description="The quality gate for model explanations.")
    parser.add_argument("--version", action="version", version=f"stabgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in COMMANDS:
        command = import_module(f"stabgate.commands.{name}")
        command.add(
            commands.add_parser(
                name,
                help=command.HELP,
                description=command.DESCRIPTION,
                epilog=command.EPILOG,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
