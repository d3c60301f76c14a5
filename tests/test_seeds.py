"""Seeds: one per run and row whatever the batch, and global generators that come back."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stabgate.seeds import isolated, row_key, row_seed

IDS = st.one_of(st.integers(-(2**62), 2**62), st.text(max_size=12), st.tuples(st.integers(0, 9), st.text(max_size=3)))


@given(seed=st.integers(0, 2**40), run=st.integers(0, 500), row=IDS)
def test_a_seed_is_the_documented_reduction(seed, run, row):
    """One 32-bit word of SeedSequence(seed, spawn_key=(run, hash of the id))."""
    expected = np.random.SeedSequence(seed, spawn_key=(run, row_key(row))).generate_state(1)[0]
    assert row_seed(seed, run, row) == expected
    assert 0 <= row_seed(seed, run, row) < 2**32
    assert 0 <= row_key(row) < 2**64


def test_seeds_differ_over_runs_and_rows():
    seeds = {row_seed(0, run, row) for run in range(50) for row in range(50)}
    assert len(seeds) > 2495  # a few of 2,500 random 32-bit words may coincide


@given(st.integers(-(2**31), 2**31 - 1))
def test_integers_hash_by_value(number):
    assert row_key(number) == row_key(np.int64(number)) == row_key(np.int32(number))
    assert row_key(number) != row_key(str(number))
    assert row_key(number) != row_key(float(number))


def test_true_is_not_one():
    assert row_key(True) != row_key(1)


def test_other_processes_give_the_same_seeds():
    code = "from stabgate.seeds import row_seed; print(row_seed(3, 4, 'Zürich'), row_seed(3, 4, 12))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [int(word) for word in found] == [row_seed(3, 4, "Zürich"), row_seed(3, 4, 12)]


def draws():
    values = [random.random(), np.random.random_sample()]
    if "torch" in sys.modules:
        values.append(sys.modules["torch"].rand(1).item())
    return values


@pytest.mark.parametrize("with_torch", [False, True])
def test_isolated_seeds_and_gives_back(with_torch, monkeypatch):
    if with_torch:
        pytest.importorskip("torch")
    else:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    random.seed(1)
    np.random.seed(1)
    if with_torch:
        sys.modules["torch"].manual_seed(1)
    states = random.getstate(), np.random.get_state()[1].copy()
    with isolated(42):
        first = draws()
    with isolated(42):
        assert draws() == first
    assert random.getstate() == states[0]
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])
    assert first[1] == np.random.RandomState(42).random_sample()
    assert first[0] == random.Random(42).random()


def test_isolated_gives_back_after_an_exception_and_nests():
    np.random.seed(5)
    expected = np.random.RandomState(5).random_sample(2)
    with pytest.raises(KeyError), isolated(1):
        nested_draws()
    np.testing.assert_array_equal(np.random.random_sample(2), expected)


def nested_draws():
    np.random.random_sample()
    with isolated(2):
        assert np.random.random_sample() == np.random.RandomState(2).random_sample()
    assert np.random.random_sample() == np.random.RandomState(1).random_sample(2)[1]
    raise KeyError
