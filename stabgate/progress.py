"""How far a long measurement is: a line that is redrawn on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

REFRESH = 0.2  # seconds between two drawings
PATIENCE = 2.0  # seconds before the line appears at all
SETTLED = 0.1  # share of the work from which its own rate says more than an estimate
FIRST = 30.0  # seconds before a log has its first line
GROWTH = 1.5  # each wait is longer than the one before it ...
LONGEST = 300.0  # ... up to this many seconds: some CI services end a job that is silent for ten minutes


class Log:
    """Lines of a process that has no terminal, however many measurements it makes: six hours are 80 lines.

    Attributes:
        write: where they go; stderr where it is None.
    """

    def __init__(self) -> None:
        self.write: Callable[[str], object] | None = None
        self._last = float("-inf")
        self._wait = FIRST

    def offer(self, text: Callable[[], str], *, started: float, now: float) -> None:
        """Write what `text` returns if this measurement, and the log, have been silent for long enough."""
        if now - max(self._last, started) < self._wait:
            return
        self._last, self._wait = now, min(GROWTH * self._wait, LONGEST)
        if self.write is not None:
            self.write(text())
        else:
            print(text(), file=sys.stderr, flush=True)


LOG = Log()


class Progress:
    """Counts explained runs of rows; says how many are done, model rows, their rate and the time left, on stderr.

    A terminal has one line that is redrawn, from the second second on. Elsewhere lines come from half a minute on,
    seldom: `Log`.

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
        if not sys.stderr.isatty():
            LOG.offer(lambda: f"stabgate: {self.line(now - self._started)}", started=self._started, now=now)
            return
        if now - self._started < PATIENCE or now - self._drawn < REFRESH:
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
