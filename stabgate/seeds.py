"""One seed contract for every explainer: a seed per run and row, and global generators left as they were.

Source: [K] section 3 asks for m independent runs per instance; one seed for all rows of a run would correlate
the rows, and a seed that depends on the batch would make a result depend on how the work was split.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from hashlib import blake2b
from typing import Any

import numpy as np

# NumPy's and Python's global generators belong to the whole process, so only one isolated block may run at a time.
_GLOBAL_GENERATORS = threading.RLock()


def row_key(row_id: Hashable) -> int:
    """64-bit hash of a row's id: the same in every process, on every machine, whatever the batch.

    Integers hash by value whatever their NumPy type; every other id by its type's name and text.
    """
    if isinstance(row_id, (int, np.integer)) and not isinstance(row_id, (bool, np.bool_)):
        text = f"int:{int(row_id)}"
    elif isinstance(row_id, str):
        text = f"str:{row_id}"
    else:
        text = f"{type(row_id).__name__}:{row_id!s}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def row_seed(seed: int, run: int, row_id: Hashable) -> int:
    """The 32-bit seed of run `run` on the row called `row_id`.

    ``SeedSequence(seed, spawn_key=(run, row_key(row_id)))`` reduced to one 32-bit word: independent of batch,
    order, worker and shard, and different for every run and row.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(run, row_key(row_id)))
    return int(sequence.generate_state(1, np.uint32)[0])


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Seed the global generators of `random`, NumPy and (where loaded) torch; give them back as they were.

    The states come back after an exception too. Blocks in other threads wait for each other. What other threads draw
    meanwhile with the functions of `random` and `numpy.random` comes from generators that continue their own stream,
    so they neither disturb this thread nor are disturbed by it.
    """
    with _GLOBAL_GENERATORS, _PYTHON.own(), _NUMPY.own():
        torch = sys.modules.get("torch")
        torch_state = torch.random.get_rng_state() if torch is not None else None
        try:
            random.seed(seed)
            np.random.seed(seed)
            if torch is not None:
                # Not torch.manual_seed: that also reseeds every accelerator and would have to be undone on each.
                torch.random.default_generator.manual_seed(seed)
            yield
        finally:
            if torch is not None and torch_state is not None:
                torch.random.set_rng_state(torch_state)


class _Generator:
    """The global generator of a module, and one that stands in for it in every other thread meanwhile."""

    def __init__(self, module: Any, stand_in: Any, get_state: str, set_state: str) -> None:
        self._module = module
        names = [n for n in dir(stand_in) if not n.startswith("_") and callable(getattr(module, n, None))]
        self._mine = {name: getattr(module, name) for name in names}
        self._routes = {name: self._route(self._mine[name], getattr(stand_in, name)) for name in names}
        self._state = self._mine[get_state], self._mine[set_state]
        self._other_state = getattr(stand_in, get_state), getattr(stand_in, set_state)
        self._gate = threading.Lock()
        self._owner: int | None = None

    @contextmanager
    def own(self) -> Iterator[None]:
        """The generator is this thread's alone within the block, and as others left the stand-in afterwards."""
        if self._owner is not None:  # a block within a block of the same thread: others are kept out already
            state = self._state[0]()
            try:
                yield
            finally:
                self._state[1](state)
            return
        with self._gate:
            self._owner = threading.get_ident()
            self._install(self._routes)
            if threading.active_count() > 1:
                time.sleep(1e-5)  # lets a thread finish that had fetched a function just before
            self._other_state[1](self._state[0]())
        try:
            yield
        finally:
            with self._gate:
                self._state[1](self._other_state[0]())
                self._owner = None
                self._install(self._mine)

    def _install(self, functions: Mapping[str, Any]) -> None:
        for name, function in functions.items():
            setattr(self._module, name, function)

    def _route(self, ours: Any, theirs: Any) -> Any:
        @wraps(ours)
        def draw(*arguments: Any, **options: Any) -> Any:
            if threading.get_ident() == self._owner:
                return ours(*arguments, **options)
            with self._gate:  # nobody draws while the states change hands
                return (ours if self._owner is None else theirs)(*arguments, **options)

        return draw


_PYTHON = _Generator(random, random.Random(), "getstate", "setstate")
_NUMPY = _Generator(np.random, np.random.RandomState(), "get_state", "set_state")
