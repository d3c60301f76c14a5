"""Where the progress of a long measurement goes while pytest captures what tests write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest


@contextmanager
def progress_shown(config: pytest.Config) -> Iterator[None]:
    """Lines of progress go past the capture: to pytest's own output, or a worker's stderr; with -q nowhere."""
    from stabgate.progress import LOG

    capture = config.pluginmanager.getplugin("capturemanager")
    reporter = config.pluginmanager.getplugin("terminalreporter")
    worker = getattr(config, "workerinput", {}).get("workerid", "")

    def write(text: str) -> None:
        if config.get_verbosity() < 0:
            return
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            if worker or reporter is None:
                print(f"[{worker}] {text}" if worker else text, file=sys.stderr, flush=True)
            else:
                reporter.ensure_newline()
                reporter.write_line(text)

    before, LOG.write = LOG.write, write
    try:
        yield
    finally:
        LOG.write = before
