"""What a session does with baselines and waivers: the folder, what is written, why; the same in all its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stabgate.baselines.waivers import Waiver

FOLDER = "stabgate-baselines"  # under pytest's root folder
INI = "baselines"  # the ini key, behind stabgate_


@dataclass(frozen=True)
class Keeping:
    """How a session keeps baselines.

    Attributes:
        folder: where they are.
        shown: the folder as a reader of messages finds it, from where pytest was called.
        flag: the flag that names it, where it was given by one.
        update: "all": what every regression gate measures becomes its baseline; "new": where there is none; or "".
        reason: why, for the record.
        waivers: by the name of their gate.
        used: names of baselines that gates of this process have used so far, with the test.
    """

    folder: Path
    shown: str
    flag: str
    update: str
    reason: str
    waivers: Mapping[str, Waiver] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)

    def claim(self, name: str, test: str) -> str:
        """Note that a test uses a baseline; why it cannot, if another one does."""
        from stabgate.baselines.names import clash

        for other, first in self.used.items():
            if (other == name and first != test) or clash(other, name):
                return shared([(other, first), (name, test)])
        self.used[name] = test
        return ""


def add_options(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Flags and the ini key."""
    parser.addini(
        f"stabgate_{INI}", help=f"folder of the baselines (default {FOLDER} in the root folder)", default=None
    )
    group.addoption(
        f"--stabgate-{INI}",
        dest=f"stabgate_{INI}",
        default=None,
        metavar="DIR",
        help=f"folder of the baselines (default {FOLDER} in the root folder)",
    )
    for name, text in (
        ("update", "what each regression gate measures becomes its baseline"),
        ("update-new", "what regression gates without a baseline measure becomes theirs"),
    ):
        group.addoption(
            f"--stabgate-{name}",
            dest=f"stabgate_{name.replace('-', '_')}",
            action="store_true",
            default=False,
            help=text,
        )
    group.addoption(
        "--stabgate-reason", dest="stabgate_reason", default=None, metavar="TEXT", help="why baselines are written"
    )


def keeping(config: pytest.Config, *, records: bool) -> Keeping:
    """What flags and ini file say.

    Args:
        records: gates may write a baseline that is missing (``missing=record``).

    Raises:
        pytest.UsageError: flags that contradict each other, or waivers that cannot be read.
    """
    from stabgate.baselines.waivers import read_waivers
    from stabgate.errors import InputError

    every, new = config.getoption("stabgate_update"), config.getoption("stabgate_update_new")
    reason = config.getoption("stabgate_reason")
    if every and new:
        raise pytest.UsageError("--stabgate-update writes new baselines as well: give it or --stabgate-update-new")
    if reason is not None and not (every or new or records):
        raise pytest.UsageError(
            "--stabgate-reason says why baselines are written, and nothing is written without --stabgate-update or "
            "--stabgate-update-new"
        )
    if reason is not None and not reason.strip():
        raise pytest.UsageError("--stabgate-reason is empty")
    flag, ini = config.getoption(f"stabgate_{INI}"), config.getini(f"stabgate_{INI}")
    if flag is not None and not flag.strip():
        raise pytest.UsageError(f"--stabgate-{INI} is empty: it names a folder")
    start = config.invocation_params.dir
    folder = start / flag if flag is not None else config.rootpath / (ini or FOLDER)
    try:
        waivers = read_waivers(folder)
    except InputError as error:
        raise pytest.UsageError(str(error)) from error
    return Keeping(
        folder=folder,
        shown=from_here(folder, start),
        flag="" if flag is None else f"--stabgate-{INI}={flag}",
        update="all" if every else "new" if new else "",
        reason=" ".join(reason.split()) if reason else "",
        waivers=waivers,
    )


def from_here(path: Path, start: Path) -> str:
    """A path as it is written in a command that is given in `start`."""
    import os

    try:
        return Path(os.path.relpath(path, start)).as_posix()
    except ValueError:  # another drive
        return str(path)


def shared(uses: list[tuple[str, str]]) -> str:
    """What is wrong with gates that share a baseline; each use is (name, test)."""
    names = sorted({name for name, _ in uses})
    tests = list(dict.fromkeys(test for _, test in uses))
    where = f"twice by {tests[0]}" if len(tests) == 1 else "by " + " and by ".join(tests)
    if len({name.casefold() for name in names}) > 1:
        return (
            f"baselines {' and '.join(map(repr, names))}, used {where}, lie in folders that differ only in case, which "
            "some file systems take for one: write the folder alike"
        )
    alike = f" (as {' and '.join(map(repr, names))}, which differ only in case)" if len(names) > 1 else ""
    return f"baseline {names[0]!r} is used {where}{alike}: one baseline belongs to one gate, give each another name="
