"""One seed contract for every explainer: a seed per run and row, and global generators left as they were.

Source: [K] section 3 asks for m independent runs per instance; one seed for all rows of a run would correlate
the rows, and a seed that depends on the batch would make a result depend on how the work was split.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from hashlib import blake2b

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

    The states come back after an exception too. Blocks in other threads wait for each other.
    """
    with _GLOBAL_GENERATORS:
        python_state = random.getstate()
        numpy_state = np.random.get_state()
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
            random.setstate(python_state)
            np.random.set_state(numpy_state)
            if torch is not None and torch_state is not None:
                torch.random.set_rng_state(torch_state)
