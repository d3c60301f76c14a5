"""A small piece of docs/calibration.md: intervals cover, unchanged models do not fail, lost ranks are caught."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stabgate.verdict.regression import judge_regression

EXPERIMENTS = 200


@pytest.fixture(scope="module")
def simulated():
    path = Path(__file__).parents[2] / "benchmarks" / "simulated.py"
    spec = importlib.util.spec_from_file_location("simulated", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulated"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kinds(simulated):
    return simulated.kinds(0.5, 10, seed=2)


@pytest.fixture(scope="module")
def library(simulated, kinds):
    return simulated.Library.of(kinds, runs=15, repeats=6, seed=1)


def test_intervals_hold_the_truth(library):
    rng = np.random.default_rng(0)
    mean, share = [], []
    for _ in range(EXPERIMENTS):
        chosen = rng.integers(library.kinds, size=30)
        result = library.measured(library.draw(chosen, rng))
        low, high = result.mean_k_interval
        mean.append(low <= library.truth[chosen].mean() <= high)
        low, high = result.share_interval(3)
        share.append(low <= (library.k[chosen] >= 3).mean() <= high)
    assert np.mean(mean) >= 0.93
    assert np.mean(share) >= 0.93


@pytest.mark.parametrize(("k", "changed"), [(None, False), (3, False), (None, True)])
def test_regressions_fail_where_something_was_lost_and_hardly_ever_elsewhere(simulated, kinds, library, k, changed):
    lost = (
        simulated.Library.of(simulated.one_rank_less(kinds, library), runs=15, repeats=3, seed=5) if changed else None
    )
    rng = np.random.default_rng(0)
    failed = []
    for _ in range(EXPERIMENTS):
        chosen = rng.integers(library.kinds, size=50)
        first, second = library.drawn_twice(chosen, rng)
        where = rng.permutation(50)[:25] if changed else ()
        now = replace(library.recorded(second, changed=lost, where=where), seed=1)
        verdict = judge_regression(now, library.recorded(first), max_drop=0.1, k=k, name="g", baseline="b")
        failed.append(verdict.outcome == "FAIL")
    assert np.mean(failed) >= 0.9 if changed else np.mean(failed) <= 0.01
