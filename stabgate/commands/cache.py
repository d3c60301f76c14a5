"""``stabgate cache``: attributions that were computed before."""

from __future__ import annotations

import argparse

HELP = "attributions that were computed before"
DESCRIPTION = (
    "Attributions that were computed before. STABGATE_CACHE names the folder (or is 'off'), "
    "STABGATE_CACHE_LIMIT its size in bytes."
)
EPILOG = """examples:
  stabgate cache info
  STABGATE_CACHE=/scratch/stabgate stabgate cache clear
"""


def add(cache: argparse.ArgumentParser) -> None:
    """Its arguments."""
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("info", help="where it is and how large").set_defaults(run=_info)
    actions.add_parser("clear", help="drop every entry").set_defaults(run=_clear)


def _info(options: argparse.Namespace) -> int:  # noqa: ARG001
    from stabgate.cache import user_cache

    cache = user_cache()
    if cache is None:
        print("the cache is off (STABGATE_CACHE=off)")
        return 0
    entries = cache.entries()
    size = sum(entry[1] for entry in entries)
    print(f"{cache.folder}: {len(entries)} entries, {size / 1e6:.1f} MB of at most {cache.limit / 1e6:.0f} MB")
    return 0


def _clear(options: argparse.Namespace) -> int:  # noqa: ARG001
    from stabgate.cache import user_cache

    cache = user_cache()
    if cache is None:
        print("the cache is off (STABGATE_CACHE=off)")
        return 0
    print(f"{cache.folder}: dropped {cache.clear()} entries")
    return 0
