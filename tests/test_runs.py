"""Repeated runs: seeds, workers, failures, costs, untouched generators."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import stabgate as sg
from stabgate.runs import collect
from stabgate.seeds import isolated, row_key, row_seed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))


def draw(X, seed):
    """Uses each global generator, as explainers do."""
    return np.array([random.random(), np.random.random(), np.random.default_rng(seed).random()])


def test_every_run_of_every_row_has_the_seed_of_the_definition():
    a = collect(sg.explainers.Random(), X, runs=4, seed=9)
    for run in range(4):
        for i in range(6):
            expected = np.random.SeedSequence(9, spawn_key=(run, row_key(i))).generate_state(1)[0]
            assert a.seeds[run, i] == expected
            np.testing.assert_array_equal(a.values[run, i], np.random.default_rng(int(expected)).random(3))
    assert len(np.unique(a.seeds)) == a.seeds.size


def test_a_row_keeps_its_values_whatever_stands_beside_it():
    frame = pd.DataFrame(X, index=list("abcdef"), columns=["u", "v", "w"])
    whole = collect(sg.explainers.Custom(draw), frame, runs=3)
    part = collect(sg.explainers.Custom(draw), frame.loc[["e", "b"]], runs=3)
    np.testing.assert_array_equal(part.values[:, 0], whole.values[:, 4])
    np.testing.assert_array_equal(part.values[:, 1], whole.values[:, 1])
    fewer = collect(sg.explainers.Custom(draw), frame, runs=2)
    np.testing.assert_array_equal(fewer.values, whole.thin(2).values)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_any_number_of_workers_gives_the_same_numbers(n_jobs):
    model = LogisticRegression().fit(X, [0, 1, 0, 1, 0, 1])
    explainer = sg.explainers.Custom(lambda X, seed: draw(X, seed) + X.ravel(), model=model, name="mine")
    serial = collect(explainer, X, runs=3, n_jobs=1)
    spread = collect(explainer, X, runs=3, n_jobs=n_jobs)
    np.testing.assert_array_equal(serial.values, spread.values)
    assert serial.instances == spread.instances
    assert serial.cost.rows == spread.cost.rows


def test_the_callers_generators_are_as_they_were_after_success_and_after_an_exception():
    import torch

    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    expected = (random.random(), np.random.random(), torch.rand(1).item())
    for fails in (False, True):
        random.seed(1)
        np.random.seed(2)
        torch.manual_seed(3)

        def explain(X, seed, fails=fails):
            draw(X, seed)
            torch.rand(5)
            if fails:
                raise ValueError("no")
            return np.random.random(3)

        collect(sg.explainers.Custom(explain), X, runs=2)
        assert (random.random(), np.random.random(), torch.rand(1).item()) == expected


def test_isolated_blocks_of_two_threads_do_not_mix():
    expected = {}
    for seed in (1, 2):
        expected[seed] = np.random.RandomState(seed).random_sample(2000)
    found = {}

    def work(seed):
        for _ in range(20):
            with isolated(seed):
                found.setdefault(seed, []).append(np.array([np.random.random() for _ in range(2000)]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, arrays in found.items():
        assert len(arrays) == 20
        for array in arrays:
            np.testing.assert_array_equal(array, expected[seed])


def test_what_another_thread_draws_disturbs_nothing_and_is_not_disturbed():
    """The other thread's stream is compared with a generator of its own that started where it started."""
    expected = collect(sg.explainers.Custom(draw), X, runs=30).values
    random.seed(5)
    np.random.seed(6)
    own, own_python = np.random.RandomState(6), random.Random(5)
    drawn, drawn_python, stop = [], [], threading.Event()

    def hammer():
        while not stop.is_set():
            drawn.append(np.random.random())
            drawn_python.append(random.random())
            time.sleep(1e-4)

    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        for _ in range(5):
            np.testing.assert_array_equal(collect(sg.explainers.Custom(draw), X, runs=30).values, expected)
    finally:
        stop.set()
        thread.join()
    np.testing.assert_array_equal(drawn, own.random_sample(len(drawn)))
    assert drawn_python == [own_python.random() for _ in drawn_python]
    assert np.random.random() == own.random_sample()
    assert random.random() == own_python.random()


def test_seeds_do_not_depend_on_the_integer_type_of_an_id_and_tell_text_from_numbers():
    assert row_seed(0, 1, 7) == row_seed(0, 1, np.int64(7)) == row_seed(0, 1, np.uint8(7))
    assert row_seed(0, 1, 7) != row_seed(0, 1, "7")
    assert row_seed(0, 1, ("a", 1)) != row_seed(0, 1, ("a", 2))


def test_a_row_that_raises_is_not_measured_and_says_in_which_run_and_why():
    def explain(X, seed):
        if X[0, 0] == X_FAIL:
            raise ZeroDivisionError("empty neighbourhood")
        return np.ones(3)

    X_FAIL = X[2, 0]
    a = collect(sg.explainers.Custom(explain), X, runs=3)
    assert list(a.failures) == [2]
    assert a.failures[2] == f"run 0 (seed {a.seeds[0, 2]}): explain: ZeroDivisionError: empty neighbourhood"
    assert np.isnan(a.values[:, 2]).all()
    assert a.measured.tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (np.array([1.0, np.nan, 0]), "returned nan for feature 'x1'"),
        (np.array([1.0, 0, np.inf]), "returned inf for feature 'x2'"),
        (np.ones(4), r"returned shape (4,) for one row of 3 features"),
        (np.ones((2, 3)), r"returned shape (2, 3) for one row of 3 features"),
        ("text", "ValueError"),
        (np.ones(3) * 1j, "returned complex numbers"),
        (np.array([1e305, 0, 0]), "returned 1e+305 for feature 'x0'"),
    ],
)
def test_what_is_no_attribution_counts_as_not_measured(returned, reason):
    a = collect(sg.explainers.Custom(lambda X, seed: returned), X[:1], runs=2)
    assert reason in a.failures[0]


def test_the_cost_is_what_the_model_was_asked():
    asked = []

    def model(rows):
        asked.append(len(rows))
        return rows[:, 0]

    class Asks(sg.explainers.TableExplainer):
        name = "asks"

        def settings(self):
            return {}

        def explain_encoded(self, rows, i, seed):
            self.predictor(np.tile(rows.encoded[i], (10, 1)))
            return rows.encoded[i]

    a = collect(Asks(model), X, runs=4)
    assert a.cost.rows == sum(asked)
    assert a.cost.calls == len(asked)
    assert a.cost.rows_asked == 2 * 6 + 6 * 4 * 10
    again = collect(Asks(model), X, runs=4, n_jobs=2)
    assert again.cost.rows_asked == a.cost.rows_asked


def test_an_expensive_model_sees_no_row_twice():
    import time

    seen = []

    def model(rows):
        time.sleep(2e-4 * len(rows))
        seen.extend(map(bytes, np.ascontiguousarray(rows)))
        return rows[:, 0]

    class Asks(sg.explainers.TableExplainer):
        name = "asks"

        def settings(self):
            return {}

        def explain_encoded(self, rows, i, seed):
            drawn = np.random.default_rng(seed).integers(0, 4, size=(50, 3)).astype(float)
            return self.predictor(drawn)[:3, 0]

    a = collect(Asks(model), X[:1], runs=30)
    assert a.cost.rows_asked == 2 + 30 * 50
    assert a.cost.rows <= 2 + 64  # 4^3 distinct rows and the check of the explained row
    assert a.cost.rows == len(seen)
    for run in range(30):
        drawn = np.random.default_rng(int(a.seeds[run, 0])).integers(0, 4, size=(50, 3))
        np.testing.assert_array_equal(a.values[run, 0], drawn[:3, 0])


def test_a_model_that_varies_between_identical_calls_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(sg.ModelError, match=r"varies between identical calls: row \d gave"):
        collect(sg.explainers.Custom(draw, model=lambda X: 1 + 1e-7 * rng.random(len(X))), X, runs=2)
    collect(sg.explainers.Custom(draw, model=lambda X: 1 + 1e-12 * rng.random(len(X))), X, runs=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": 1}, "runs=1; it must be an integer of at least 2"),
        ({"runs": 2.0}, "runs=2.0"),
        ({"runs": True}, "runs=True"),
        ({"seed": -1}, "seed=-1"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"cache": "yes"}, "cache='yes'; it must be True or False"),
        ({"rows": np.array([True, False])}, "rows is a mask of booleans; give a function"),
        ({"rows": lambda X: X["nope"]}, "the function given as rows raised IndexError"),
        ({"groups": ["x0"]}, "groups is list; give lists of features by name"),
        ({"groups": {"a": 5}}, "group 'a' must be a list of at least one feature, not 5"),
        ({"X": X[:0]}, "X has no rows"),
        ({"X": X[:, :0]}, "X has no columns"),
        ({"X": X[0]}, "X has 1 dimension"),
        ({"X": np.where(X[0, 0] == X, np.inf, X)}, "column 'x0' holds an infinite value in row 0"),
        ({"X": pd.DataFrame(X, columns=["a", "a", "b"])}, "column name 'a' occurs 2 times"),
        ({"X": pd.DataFrame(X, index=[1, 2, 3, 3, 4, 5])}, "row id 3 occurs 2 times"),
        ({"explainer": draw}, r"wrap it: stabgate.explainers.Custom\(function\)"),
        ({"explainer": 3}, "explainer is int, which has no explain"),
        ({"explainer": sg.explainers.Random}, "is the class Random, not an instance"),
        ({"target": 1}, "has no parameter named target"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"explainer": sg.explainers.Custom(draw), "X": X, "runs": 2} | change
    explainer, rows = arguments.pop("explainer"), arguments.pop("X")
    with pytest.raises(sg.InputError, match=message):
        collect(explainer, rows, **arguments)


def test_any_object_with_explain_will_do():
    class Mine:
        def explain(self, X, *, seed, target=None):
            return np.random.default_rng(seed).random((len(X), 3)) + (target or 0)

    a = collect(Mine(), X, runs=2, target=5)
    np.testing.assert_array_equal(a.values[1, 3], np.random.default_rng(int(a.seeds[1, 3])).random(3) + 5)
    assert a.provenance["explainer"] == "Mine"
    assert a.targets == (5,) * 6
