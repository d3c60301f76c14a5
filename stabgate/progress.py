"""A progress line for people at a terminal; silent everywhere else, so that CI logs stay readable."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

REFRESH = 0.2  # seconds between two drawings
PATIENCE = 2.0  # seconds before the line appears at all
SETTLED = 0.1  # share of the work from which its own rate says more than an estimate


class Progress:
    """Counts explained runs of rows; draws done, model rows, their rate and the time left on a terminal's stderr.

    Nothing is written where stderr is no terminal, nor in the first two seconds.

    Args:
        total: number of explanations to come.
        rows: says how many model rows have been evaluated in this process.
    """

    def __init__(self, total: int, rows: Callable[[], int]) -> None:
        self._total = total
        self._rows = rows
        self._first_rows = rows()
        self._elsewhere = 0
        self._done = 0
        self._known = 0
        self._expected: float | None = None
        self._started = self._drawn = time.perf_counter()
        self._visible = False

    def __enter__(self) -> Progress:
        return self

    def known(self, explanations: int) -> None:
        """`explanations` need no work: they were computed before."""
        self._known += explanations
        self.advance(explanations)

    def expect(self, seconds: float) -> None:
        """An estimate of the whole work, for the time left until the work has a rate of its own."""
        self._expected = seconds

    def advance(self, explanations: int, rows: int = 0) -> None:
        """`explanations` more are done; `rows` model rows were evaluated for them in another process."""
        self._done += explanations
        self._elsewhere += rows
        now = time.perf_counter()
        if now - self._started < PATIENCE or now - self._drawn < REFRESH or not sys.stderr.isatty():
            return
        self._drawn = now
        self._visible = True
        sys.stderr.write("\r\x1b[2K" + self.line(now - self._started))
        sys.stderr.flush()

    def line(self, elapsed: float) -> str:
        """The text of the line after `elapsed` seconds."""
        rows = self._rows() - self._first_rows + self._elsewhere
        to_come = self._total - self._done
        if self._expected is not None and self._done < SETTLED * self._total:
            left = max(0.0, self._expected - elapsed)
        else:
            left = elapsed / max(self._done - self._known, 1) * to_come
        return (
            f"explaining {self._done}/{self._total} · {rows:,} model rows · {rows / max(elapsed, 1e-9):,.0f} rows/s · "
            f"{left:.0f} s left"
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._visible:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
