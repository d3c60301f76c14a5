"""A memory of model rows: each distinct row is evaluated once, where that costs less than the model does.

Repeated KernelSHAP runs on one instance share 95-99 % of their rows on 8-13 features, so most of the model's work
in a naive loop is work done twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

ROWS_KEPT = 2_000_000  # above this many rows new ones are still answered, but no longer kept
# The model must cost this many times a look-up per row. Below one, since rows repeat often where it matters, and so
# that the decision, and with it the count of rows, is not a matter of luck for common models.
WORTH = 0.5
ENOUGH = 200  # new rows in a call from which its time says something about one row
SELDOM = 0.01  # share of rows found again below which only those that were are worth keeping for later
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class RowMemory:
    """Outputs of the rows seen so far, found by a 128-bit hash of the row's bytes.

    Args:
        worth: whether looking rows up pays; None measures it at the first call.
    """

    def __init__(self, worth: bool | None = None) -> None:
        self._keys = np.empty((0, 2), dtype=np.uint64)  # sorted by the first word
        self._outputs: Floats | None = None
        self._again = np.empty(0, dtype=bool)  # which rows were asked for again
        self._asked = self._found = 0  # distinct rows of each call
        self.worth = worth

    def outputs(self, rows: Floats, evaluate: Callable[[Floats], Floats]) -> Floats:
        """Outputs ``(rows, outputs)``, from memory where the row is known, from `evaluate` where it is not."""
        if self.worth is False:
            return evaluate(rows)
        started = time.perf_counter()
        keys = hash_rows(rows)
        keys, first, inverse = _distinct(keys)
        known, places = self._find(keys)
        self._asked += len(keys)
        self._found += int(known.sum())
        self._again[places[known]] = True
        looking = time.perf_counter() - started
        new = np.flatnonzero(~known)
        started = time.perf_counter()
        fresh = evaluate(rows[first[new]]) if new.size else None
        modelling = time.perf_counter() - started
        if self.worth is None and fresh is not None and new.size >= ENOUGH:
            self.worth = modelling / new.size > WORTH * looking / len(rows)
        width = fresh.shape[1] if fresh is not None else self._width
        distinct = np.empty((len(keys), width))
        if fresh is not None:
            distinct[new] = fresh
        if known.any() and self._outputs is not None:
            distinct[known] = self._outputs[places[known]]
        if fresh is not None and self.worth is not False:
            self._keep(keys[new], fresh)
        return distinct[inverse]

    @property
    def size(self) -> int:
        """Bytes."""
        outputs = 0 if self._outputs is None else self._outputs.nbytes
        return self._keys.nbytes + outputs + self._again.nbytes

    @property
    def seldom(self) -> bool:
        """Whether hardly any row was asked for again."""
        return self._found < SELDOM * self._asked

    def condense(self) -> None:
        """Forget the rows that were asked for once only."""
        if self._outputs is not None:
            self._keys, self._outputs = self._keys[self._again], self._outputs[self._again]
            self._again = self._again[self._again]

    @property
    def _width(self) -> int:
        return 0 if self._outputs is None else self._outputs.shape[1]

    def _find(self, keys: Hashes) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        if not len(self._keys):
            return np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.intp)
        places = np.searchsorted(self._keys[:, 0], keys[:, 0])
        places = np.minimum(places, len(self._keys) - 1)
        return (self._keys[places] == keys).all(axis=1), places

    def _keep(self, keys: Hashes, outputs: Floats) -> None:
        if len(self._keys) + len(keys) > ROWS_KEPT:
            return
        merged = np.concatenate([self._keys, keys])
        values = outputs if self._outputs is None else np.concatenate([self._outputs, outputs])
        again = np.concatenate([self._again, np.zeros(len(keys), dtype=bool)])
        order = np.argsort(merged[:, 0], kind="stable")
        self._keys, self._outputs, self._again = merged[order], values[order], again[order]


def hash_rows(rows: Floats) -> Hashes:
    """Two independent 64-bit hashes of each row's bytes, ``(rows, 2)``."""
    words = np.ascontiguousarray(rows).view(np.uint64)
    hashes = np.empty((len(words), 2), dtype=np.uint64)
    odd = np.random.Generator(np.random.PCG64(0)).integers(0, 2**64 - 1, (2, words.shape[1]), np.uint64, endpoint=True)
    with np.errstate(over="ignore"):
        for which in range(2):
            mixed = (words ^ (words >> np.uint64(29))) * _MIX[which]
            mixed ^= mixed >> np.uint64(32)
            hashes[:, which] = (mixed * (odd[which] | np.uint64(1))).sum(axis=1, dtype=np.uint64)
    return hashes


def _distinct(keys: Hashes) -> tuple[Hashes, NDArray[np.intp], NDArray[np.intp]]:
    """Distinct keys sorted by their first word, where each stands first, and which one every row has."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = np.empty(len(keys), dtype=np.intp)
    inverse[order] = np.cumsum(starts) - 1
    return ordered[starts], order[starts], inverse
