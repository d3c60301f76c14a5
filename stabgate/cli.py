"""The command ``stabgate``: thin, every command calls a function of the library.

Exit codes: 0 done, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    from stabgate.errors import StabgateError

    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except StabgateError as error:
        print(f"stabgate: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    from stabgate import __version__

    parser = argparse.ArgumentParser(prog="stabgate", description="The quality gate for model explanations.")
    parser.add_argument("--version", action="version", version=f"stabgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    cache = commands.add_parser(
        "cache",
        help="attributions that were computed before",
        description="Attributions that were computed before. STABGATE_CACHE names the folder (or is 'off'), "
        "STABGATE_CACHE_LIMIT its size in bytes.",
    )
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("info", help="where it is and how large").set_defaults(run=_cache_info)
    actions.add_parser("clear", help="drop every entry").set_defaults(run=_cache_clear)
    return parser


def _cache_info(options: argparse.Namespace) -> int:  # noqa: ARG001
    from stabgate.cache import user_cache

    cache = user_cache()
    if cache is None:
        print("the cache is off (STABGATE_CACHE=off)")
        return 0
    entries = cache.entries()
    size = sum(entry[1] for entry in entries)
    print(f"{cache.folder}: {len(entries)} entries, {size / 1e6:.1f} MB of at most {cache.limit / 1e6:.0f} MB")
    return 0


def _cache_clear(options: argparse.Namespace) -> int:  # noqa: ARG001
    from stabgate.cache import user_cache

    cache = user_cache()
    if cache is None:
        print("the cache is off (STABGATE_CACHE=off)")
        return 0
    print(f"{cache.folder}: dropped {cache.clear()} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
