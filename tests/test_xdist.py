"""Under pytest-xdist the processes share the cores already: no more of them, and no thread pools of full size."""

from __future__ import annotations

import numpy as np
import pytest

from stabgate import runs
from stabgate.explainers import Custom
from stabgate.workers import explain_chunk

TEST = """
import multiprocessing
import os

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from stabgate import runs
from stabgate.explainers import Custom


def threads():
    return [pool["num_threads"] for pool in threadpool_info()]


@pytest.mark.parametrize("number", range(2))
def test_in_a_worker(number, monkeypatch):
    assert os.environ["PYTEST_XDIST_WORKER"]
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(runs, "WORTH_WORKERS", 0.0)
    before, within, children = threads(), [], []

    def explain(X, seed):
        np.ones((50, 50)) @ np.ones((50, 50))
        within.extend(threads())
        children.extend(multiprocessing.active_children())
        return np.ones(3)

    def no_processes(*arguments):
        raise AssertionError("processes were started")

    monkeypatch.setattr(runs, "in_processes", no_processes)
    runs.collect(Custom(explain), np.ones((3, 3)), runs=2)
    assert within and max(within) == 1
    assert not children
    assert threads() == before
"""


def test_one_process_and_few_threads_in_a_worker(pytester):
    pytest.importorskip("xdist")
    pytest.importorskip("threadpoolctl")
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess("-n", "2", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_elsewhere_work_that_is_worth_it_is_spread(monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(runs, "WORTH_WORKERS", 0.0)
    asked = []

    def processes(work, rows, count):
        asked.append(([row.position for row in rows], count))
        yield explain_chunk(work, rows)

    monkeypatch.setattr(runs, "in_processes", processes)
    runs.collect(Custom(lambda X, seed: np.ones(3)), np.ones((3, 3)), runs=2)
    assert asked == [([1, 2], 2)]
