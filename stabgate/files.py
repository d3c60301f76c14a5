"""Files that are written whole or not at all, by one process at a time."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stabgate.errors import InputError

LOCK_TIMEOUT = 30.0  # seconds; what is done under a lock takes milliseconds
LOCK_PAUSE = 0.02  # seconds between two tries


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file: a kill at any moment leaves the old content or the new one.

    Raises:
        InputError: the folder or the file cannot be written to.
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """As `write_text`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".partial", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(partial, 0o666 & ~mask)
            os.replace(partial, path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Be the only process in here that has locked this file.

    The lock is the operating system's and goes with the process that holds it, however that ends; the file stays.

    Raises:
        InputError: another process did not let go within `timeout` seconds, or the folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from error
    with file:
        until = time.monotonic() + timeout
        while not _try_lock(file.fileno()):
            if time.monotonic() > until:
                raise InputError(
                    f"{path}: another process has held this lock for {timeout:g} s; wait or end it, and try again"
                )
            time.sleep(LOCK_PAUSE)
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
