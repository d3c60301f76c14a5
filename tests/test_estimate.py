"""What a measurement will cost, told before it is started, and the progress line."""

from __future__ import annotations

import io
import sys
import time
import warnings

import numpy as np
import pytest

import stabgate as sg
from stabgate.explainers import Captum, Custom, Dice, Lime, Shap
from stabgate.explainers.base import TableExplainer
from stabgate.progress import Log, Progress
from stabgate.runs import collect

X = np.random.default_rng(0).normal(size=(4, 3))


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when it is told to."""
    now = [1000.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


RUNS = "runs=50 (k from other numbers of runs is not comparable)"


class Slow(TableExplainer):
    """30 s to set up with 10 rows of a background, then 1 s and 5 model rows a run; a model row takes 0.1 s."""

    name = "slow"

    def __init__(self, clock, *, same_rows):
        def model(rows):
            clock[0] += 0.1 * len(rows)
            return rows[:, 0]

        super().__init__(model)
        self.clock, self.same_rows, self.built = clock, same_rows, False

    def settings(self):
        return {}

    def cheaper(self):
        return ("a smaller nsamples",)

    def explain_encoded(self, rows, i, seed):
        if not self.built:
            self.built = True
            self.clock[0] += 30
            self.predictor(np.arange(30.0).reshape(10, 3))
        self.clock[0] += 1
        offset = i if self.same_rows else seed
        self.predictor(1e3 + np.random.default_rng(offset).normal(size=(5, 3)))
        return rows.encoded[i]


@pytest.mark.parametrize("same_rows", [False, True])
def test_the_estimate_is_what_the_measurement_takes(clock, same_rows):
    """By hand: 8 rows are asked to check the model, 10 for the background, then 5 a run, or 5 a row of X where runs
    share them."""
    estimate = sg.estimate_cost(Slow(clock, same_rows=same_rows), X, runs=20)
    rows = 8 + 10 + (4 * 5 if same_rows else 4 * 20 * 5)
    assert estimate.rows == rows
    assert estimate.fixed_seconds == pytest.approx(31)
    assert estimate.seconds == pytest.approx(30 + 4 * 20 * 1 + 0.1 * rows)
    assert estimate.explanations == 80
    assert not estimate.large
    assert estimate.advice == ()
    taken = collect(Slow(clock, same_rows=same_rows), X, runs=20, n_jobs=1).cost
    assert taken.rows == estimate.rows
    assert taken.seconds == pytest.approx(estimate.seconds)


def test_a_large_estimate_comes_with_advice_and_is_warned_of_once(clock, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    estimate = sg.estimate_cost(Slow(clock, same_rows=True), X, runs=200)
    assert estimate.large
    assert estimate.advice == ("a smaller nsamples", "n_jobs=4", RUNS)
    assert "800 explanations take about 14 min and about 38 model rows (31 s are a fixed cost" in str(estimate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        collect(Slow(clock, same_rows=True), X, runs=200, n_jobs=1)
    found = [w for w in caught if issubclass(w.category, sg.CostWarning)]
    assert len(found) == 1
    assert str(found[0].message) == str(estimate)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collect(Slow(clock, same_rows=True), X, runs=2, n_jobs=1)


def test_advice_to_explain_fewer_rows(clock):
    many = np.random.default_rng(1).normal(size=(100, 3))
    assert "rows=20, a sample of the 100 rows" in sg.estimate_cost(Slow(clock, same_rows=False), many, runs=50).advice


def test_an_estimate_for_several_processes(clock):
    one = sg.estimate_cost(Slow(clock, same_rows=False), X, runs=20)
    two = sg.estimate_cost(Slow(clock, same_rows=False), X, runs=20, n_jobs=2)
    assert two.rows == one.rows
    assert one.seconds - two.seconds == pytest.approx(4 * 20 * 1.5 / 2)


def test_rows_that_fail_are_passed_over():
    def explain(X, seed):
        if X[0, 0] == X_FIRST:
            raise ValueError("no")
        return np.ones(3)

    X_FIRST = X[0, 0]
    assert sg.estimate_cost(Custom(explain), X, runs=5).explanations == 20
    with pytest.raises(sg.ExplainerError, match=r"the first 1 rows could not be explained \(explain: ValueError: no\)"):
        sg.estimate_cost(Custom(explain), X[:1])
    with pytest.raises(sg.InputError, match="runs=1"):
        sg.estimate_cost(Custom(explain), X, runs=1)


def test_the_estimate_of_a_real_explainer():
    """LIME draws num_samples rows a run, of which the first is the row itself."""
    pytest.importorskip("lime")
    explainer = Lime(lambda Z: Z @ [1.0, 2.0, 3.0], background=np.random.default_rng(1).normal(size=(30, 3)))
    rows = sg.estimate_cost(explainer, X, runs=10).rows
    assert rows == pytest.approx(4 * 10 * 5000, rel=1e-3)


def test_two_runs_in_this_process_are_not_repeated_by_the_workers():
    model = lambda Z: Z @ [1.0, 2.0, 3.0]  # noqa: E731
    explainer = Custom(lambda X, seed: np.random.default_rng(seed).random(3) + X[0], model=model)
    one = collect(explainer, X, runs=5, n_jobs=1)
    two = collect(explainer, X, runs=5, n_jobs=2)
    np.testing.assert_array_equal(one.values, two.values)


def test_advice_of_the_explainers():
    pytest.importorskip("shap")
    pytest.importorskip("dice_ml")
    torch = pytest.importorskip("torch")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    data = np.random.default_rng(0).normal(size=(60, 3))
    y = (data[:, 0] > 0).astype(int)
    forest, line = RandomForestClassifier(2).fit(data, y), LogisticRegression().fit(data, y)
    tree, background, samples = Shap(forest, background=data).cheaper()
    assert tree.startswith("method='tree'")
    assert background.startswith("a background of fewer than 60 rows")
    assert samples.startswith("a smaller nsamples (2054 now")
    assert Shap(line, background=data[:9], method="permutation").cheaper()[0].startswith("method='linear'")
    assert Shap(forest, method="tree").cheaper() == ()
    linear = Dice(forest, background=data, method="genetic", posthoc_sparsity_algorithm="linear")
    assert [advice.split(" ")[0] for advice in linear.cheaper()] == [
        "posthoc_sparsity_algorithm='binary'",
        "method='random'",
    ]
    assert "n_steps (50 now" in Captum(torch.nn.Linear(3, 2), background=data).cheaper()[0]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_line_on_a_terminal(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    rows = [100]
    with Progress(40, lambda: rows[0]) as progress:
        for seconds, done in ((1, 2), (9, 8), (0.1, 1), (10, 9)):
            clock[0] += seconds
            rows[0] += 10 * done
            progress.advance(done)
    lines = terminal.getvalue().split("\r\x1b[2K")
    # Nothing in the first two seconds, nor within a fifth of a second of the last drawing; and it is wiped at the end.
    assert lines == [
        "",
        "explaining 10/40 · 100 model rows · 10 rows/s · 30 s left",
        "explaining 20/40 · 200 model rows · 10 rows/s · 20 s left",
        "",
    ]


def test_time_left_goes_by_the_estimate_until_there_is_a_rate(clock):
    progress = Progress(100, lambda: 0)
    progress.expect(500)
    progress.advance(1)
    assert progress.line(40).endswith("460 s left")
    progress.advance(49)
    assert progress.line(100).endswith("100 s left")


def test_what_the_cache_knew_says_nothing_about_the_rate(clock):
    progress = Progress(100, lambda: 0)
    progress.known(40)
    progress.advance(10)
    assert progress.line(20).endswith("100 s left")


def test_a_log_has_a_line_after_half_a_minute_and_fewer_and_fewer_then(clock, capsys, monkeypatch):
    monkeypatch.setattr("stabgate.progress.LOG", Log())
    with Progress(2160, lambda: 0) as progress:
        for done in range(2160):  # six hours, every ten seconds
            clock[0] += 10
            progress.advance(1)
            assert done > 1 or capsys.readouterr() == ("", "")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[:2] == [
        "stabgate: explaining 3/2160 · 0 model rows · 0 rows/s · 21570 s left",
        "stabgate: explaining 8/2160 · 0 model rows · 0 rows/s · 21520 s left",
    ]
    assert 70 < len(lines) < 90
    assert "\x1b" not in err
    assert "\r" not in err


def test_many_measurements_share_one_log(clock, capsys, monkeypatch):
    monkeypatch.setattr("stabgate.progress.LOG", Log())
    for seconds in [29] * 50 + [60] * 500:
        with Progress(1, lambda: 0) as progress:
            clock[0] += seconds
            progress.advance(1)
    assert len(capsys.readouterr().err.splitlines()) < 120


def test_a_log_goes_where_it_is_told_to(clock, capsys, monkeypatch):
    log, said = Log(), []
    log.write = said.append
    monkeypatch.setattr("stabgate.progress.LOG", log)
    with Progress(2, lambda: 0) as progress:
        clock[0] += 40
        progress.advance(1)
    assert said == ["stabgate: explaining 1/2 · 0 model rows · 0 rows/s · 40 s left"]
    assert capsys.readouterr() == ("", "")


def test_a_measurement_draws_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("stabgate.progress.PATIENCE", 0.05)
    monkeypatch.setattr("stabgate.progress.REFRESH", 0.0)

    def explain(X, seed):
        time.sleep(0.02)
        return np.ones(3)

    collect(Custom(explain), X, runs=5, n_jobs=1)
    assert "explaining 20/20 · " in terminal.getvalue()


def test_before_workers_start_two_runs_tell_and_are_kept(clock, monkeypatch):
    """The same number of explanations, values and one warning, wherever the rest of the work is done."""
    from stabgate import runs
    from stabgate.workers import explain_chunk

    monkeypatch.setattr(runs, "in_processes", lambda work, rows, workers: [explain_chunk(work, [i]) for i in rows])
    monkeypatch.setattr(Slow, "calls", [], raising=False)
    plain = Slow.explain_encoded
    monkeypatch.setattr(Slow, "explain_encoded", lambda self, *a: (self.calls.append(1), plain(self, *a))[1])
    with pytest.warns(sg.CostWarning, match=r"2,000 explanations take about \d+ min in 2 processes") as caught:
        found = collect(Slow(clock, same_rows=True), X, runs=500, n_jobs=2)
    assert len([w for w in caught if w.category is sg.CostWarning]) == 1
    assert len(Slow.calls) == 4 * 500
    np.testing.assert_array_equal(found.values, [X] * 500)
