"""Attributions that were computed before: one file per row, found by everything that decides their values.

The key covers the explainer with its settings and versions, background, model fingerprint, the row, its target and its
seeds. Files are arrays, never a pickle; they are written whole or not at all, so that several jobs may share a folder.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError

Floats = NDArray[np.float64]

VARIABLE = "STABGATE_CACHE"  # a folder, or "off"
LIMIT = 1 << 30  # bytes; STABGATE_CACHE_LIMIT overrides it
SUFFIX = ".attributions.npz"


class CacheWarning(UserWarning):
    """A cache entry was damaged and has been dropped; the values are computed again."""


@dataclass(frozen=True)
class Cache:
    """A folder of attributions ``(runs, features)`` by key."""

    folder: Path
    limit: int = LIMIT

    def read(self, key: str, features: int) -> Floats | None:
        """What is stored under `key`, ``(runs, features)``; None where there is nothing usable."""
        path = self._path(key)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                values = archive["values"]
            if values.ndim != 2 or values.shape[1] != features or not np.isfinite(values).all():
                raise ValueError(f"it holds {values.dtype} of shape {values.shape}")
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        except Exception as error:
            warnings.warn(f"cache entry {path} is damaged ({error}) and was dropped", CacheWarning, stacklevel=2)
            path.unlink(missing_ok=True)
            return None
        with suppress(OSError):  # a folder that may only be read is a cache all the same
            path.touch()
        stored: Floats = values.astype(np.float64)
        return stored

    def write(self, key: str, values: Floats) -> None:
        """Store ``(runs, features)`` under `key`. A folder that cannot be written to is warned of, not fatal."""
        path = self._path(key)
        partial = path.with_name(f".{key[:16]}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                np.savez_compressed(file, values=values)
            partial.replace(path)
        except OSError as error:
            reason = error.strerror or error
            # The same words for every entry, so that Python shows them once.
            warnings.warn(f"the cache {self.folder} could not be written ({reason})", CacheWarning, stacklevel=2)
        finally:
            if partial.exists():
                partial.unlink(missing_ok=True)

    def entries(self) -> list[tuple[Path, int, float]]:
        """Path, bytes and time of last use of every entry, the longest unused first."""
        found = []
        for path in self.folder.glob(f"??/*{SUFFIX}"):
            try:
                status = path.stat()
            except FileNotFoundError:  # another job dropped it meanwhile
                continue
            found.append((path, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry[2])

    def trim(self) -> int:
        """Drop the longest unused entries until the folder keeps its limit; returns how many went."""
        entries = self.entries()
        excess = sum(size for _, size, _ in entries) - self.limit
        dropped = 0
        for path, size, _ in entries:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size
            dropped += 1
        return dropped

    def clear(self) -> int:
        """Drop every entry (and nothing else in the folder); returns how many there were."""
        entries = self.entries()
        for path, _, _ in entries:
            path.unlink(missing_ok=True)
        return len(entries)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}{SUFFIX}"


def user_cache() -> Cache | None:
    """The cache of this user: ``STABGATE_CACHE`` (a folder, or "off" for none), else the platform's cache folder.

    Raises:
        InputError: ``STABGATE_CACHE_LIMIT`` is not a number of bytes.
    """
    given = os.environ.get(VARIABLE, "")
    if given.lower() == "off":
        return None
    limit = os.environ.get("STABGATE_CACHE_LIMIT", str(LIMIT))
    if not limit.isdigit():
        raise InputError(f"STABGATE_CACHE_LIMIT={limit!r}; it must be a number of bytes")
    return Cache(Path(given).expanduser() if given else _platform_folder(), int(limit))


def _platform_folder() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "stabgate"
