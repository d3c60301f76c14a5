"""Standard output and error that may go away: a reader that has seen enough (``| head``), or a full disk."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from stabgate.errors import InputError


class Guarded:
    """A text stream whose first failure is kept and whose rest goes nowhere: what writes to it comes to its end.

    Attributes:
        lost: the failure; None where all was written.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.lost: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As a stream's, without what the system says against it."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """As `write`."""
        self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            self.lost = self.lost or error
            self._discard()

    def _discard(self) -> None:
        # What is still buffered would fail again when Python ends, with a traceback and exit code 120.
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


@contextmanager
def guarded(name: Literal["stdout", "stderr"]) -> Iterator[None]:
    """No failure of this stream ends what is done meanwhile.

    Raises:
        InputError: at the end, where standard output was lost for another reason than a reader that went.
    """
    before = getattr(sys, name)
    stream = Guarded(before or io.StringIO())  # None: it was closed before Python began
    setattr(sys, name, stream)
    try:
        yield
    finally:
        stream.flush()
        setattr(sys, name, before)
        if name == "stdout" and stream.lost is not None and not _reader_went(stream.lost):
            raise InputError(f"standard output cannot be written to ({stream.lost.strerror or stream.lost})")


def _reader_went(error: OSError) -> bool:
    return isinstance(error, BrokenPipeError) or (os.name == "nt" and error.errno == errno.EINVAL)
