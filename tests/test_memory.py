"""The memory of model rows: same outputs, no row evaluated twice, no two rows confused."""

from __future__ import annotations

import time
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stabgate import memory
from stabgate.memory import RowMemory, hash_rows


class Counting:
    """A model with two outputs that costs enough to be worth remembering."""

    def __init__(self, seconds=0.002):
        self.rows, self.seconds = 0, seconds

    def __call__(self, rows):
        self.rows += len(rows)
        time.sleep(self.seconds)
        return np.column_stack([np.nansum(rows, axis=1), rows[:, 0]])


SMALL = st.sampled_from([0.0, 1.0, -1.0, 2.5, np.nan])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 12).flatmap(lambda n: arrays(float, (n, 3), elements=SMALL)), min_size=1, max_size=4))
def test_outputs_are_the_models_and_each_row_is_evaluated_once(batches):
    model, seen = Counting(seconds=0), RowMemory()
    with mock.patch.object(memory, "WORTH", -1.0):  # always worth it: what is asked must not depend on a clock
        for batch in batches:
            found = seen.outputs(batch, model)
            np.testing.assert_array_equal(found, np.column_stack([np.nansum(batch, axis=1), batch[:, 0]]))
    distinct = {row.tobytes() for batch in batches for row in batch}
    assert model.rows == len(distinct)


def test_a_cheap_model_is_asked_directly():
    calls = []

    def cheap(rows):
        calls.append(len(rows))
        return rows[:, :1]

    seen, rows = RowMemory(), np.random.default_rng(0).normal(size=(20_000, 30))
    for _ in range(3):
        np.testing.assert_array_equal(seen.outputs(rows, cheap), rows[:, :1])
    assert calls == [20_000] * 3


def test_full_memory_still_answers(monkeypatch):
    monkeypatch.setattr(memory, "ROWS_KEPT", 10)
    model, seen = Counting(), RowMemory()
    rows = np.arange(60.0).reshape(20, 3)
    for batch in (rows[:8], rows[4:16], rows):
        np.testing.assert_array_equal(seen.outputs(batch, model)[:, 1], batch[:, 0])


def test_hashes_tell_rows_apart():
    """All 2^14 rows of zeros and ones, and every row with one bit of one number changed."""
    rows = ((np.arange(2**14)[:, None] >> np.arange(14)) & 1).astype(float)
    assert len(np.unique(hash_rows(rows), axis=0)) == 2**14
    assert len(np.unique(hash_rows(rows)[:, 0])) == 2**14
    base = np.random.default_rng(0).normal(size=6)
    flipped = []
    for position in range(6):
        for bit in range(64):
            words = base.copy().view(np.uint64)
            words[position] ^= np.uint64(1) << np.uint64(bit)
            flipped.append(words.view(float))
    assert len(np.unique(hash_rows(np.array([base, *flipped])), axis=0)) == 6 * 64 + 1


def test_columns_that_are_swapped_hash_differently():
    rows = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert (hash_rows(rows)[0] != hash_rows(rows)[1]).all()
