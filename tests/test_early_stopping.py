"""Gates that stop early: the same values, fewer runs, no model row twice, and budgets that end where they say."""

from __future__ import annotations

import time

import numpy as np
import pytest

import stabgate as sg
from stabgate.gate import judge_min_k_stability
from stabgate.measure.kstability import stability_of
from stabgate.runs import Collection, collect

X = np.zeros((10, 3))


def noisy(spread, model=None):
    """Magnitudes 3, 2 and 1 with this standard deviation."""

    def explain(X, seed):
        return np.array([3.0, 2.0, 1.0]) + spread * np.random.default_rng(seed).normal(size=3)

    return sg.explainers.Custom(explain, model=model, name="noise")


@pytest.mark.parametrize(("spread", "outcome"), [(0.01, "PASS"), (0.0, "PASS"), (2.0, "FAIL")])
def test_a_clear_gate_stops_at_the_first_look_with_the_first_runs_of_the_whole_measurement(spread, outcome):
    judged = judge_min_k_stability(noisy(spread), X, k=3, share=0.9)
    verdict, whole = judged.verdict, sg.measure_k_stability(noisy(spread), X)
    assert verdict.outcome == judge_min_k_stability(whole, k=3, share=0.9).verdict.outcome == outcome
    assert (verdict.runs, verdict.requirement.runs) == (10, 50)
    assert "settled after 10 of 50 runs: k are at 10 runs" in verdict.notes
    np.testing.assert_array_equal(judged.result.attributions.values, whole.attributions.values[:10])
    np.testing.assert_array_equal(judged.result.k, stability_of(whole.attributions.thin(10)).k)
    assert judged.result.to_frame()["runs"].tolist() == [10] * 10
    assert judged.result.planned == 50
    assert (judged.message == "") is (outcome == "PASS")
    if outcome == "FAIL":
        assert "[distance >= 0.9, 10 of 50 runs, all-pairs]" in judged.message
        assert "runs=50, threshold" in judged.message  # the replay command measures what was asked for


def test_early_stopping_can_be_switched_off_and_a_result_is_left_alone():
    judged = judge_min_k_stability(noisy(0.01), X, k=3, early=False)
    assert judged.verdict.runs == judged.verdict.requirement.runs == 50
    assert judged.result.to_frame()["runs"].tolist() == [50] * 10
    whole = sg.measure_k_stability(noisy(0.01), X)
    assert whole.runs == whole.planned == judge_min_k_stability(whole, k=3).verdict.runs == 50
    for wrong in ("off", 1, None):
        with pytest.raises(sg.InputError, match="early="):
            judge_min_k_stability(noisy(0.01), X, k=3, early=wrong)
    with pytest.raises(sg.InputError, match="budget cannot be given with a result"):
        judge_min_k_stability(whole, k=3, budget="3m")


def test_a_gate_that_is_close_takes_more_runs():
    """Five rows are sure and five are at the threshold, of which two must not fail."""

    def explain(X, seed):
        means = [3.0, 2.0, 1.0] if X[0, 0] < 15 else [3.0, 2.68, 1.0]
        return np.array(means) + 0.1 * np.random.default_rng(seed).normal(size=3)

    rows = np.arange(30.0).reshape(10, 3)
    verdict = judge_min_k_stability(sg.explainers.Custom(explain), rows, k=3, share=0.7).verdict
    assert verdict.runs > 10


def test_few_runs_have_no_look():
    assert judge_min_k_stability(noisy(0.01), X, k=3, runs=10).verdict.runs == 10
    assert judge_min_k_stability(noisy(0.01), X, k=3, runs=11).verdict.runs == 10


def test_a_sample_of_a_population_stops_by_wilsons_interval():
    rows = np.zeros((40, 3))  # Wilson's lower end of 40 of 40 is 0.912
    verdict = judge_min_k_stability(noisy(0.01), rows, k=3, share=0.9, rows="sample").verdict
    assert (verdict.outcome, verdict.runs) == ("PASS", 10)
    verdict = judge_min_k_stability(noisy(0.01), rows, k=3, share=0.92, rows="sample", runs=12).verdict
    assert (verdict.outcome, verdict.runs) == ("INCONCLUSIVE", 12)


def test_values_that_repeat_are_not_predicted():
    def explain(X, seed):
        return np.round(np.array([0.9, 0.5, 0.1]) + 0.05 * np.random.default_rng(seed).normal(size=3), 1)

    assert judge_min_k_stability(sg.explainers.Custom(explain), X, k=3, share=0.9).verdict.runs == 50


def test_rows_that_fail_stay_failed_and_cost_no_more_runs():
    asked = []

    def explain(X, seed):
        asked.append(int(X[0, 0]))
        if X[0, 0] == 0:
            raise RuntimeError("did not converge")
        return np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)

    rows = np.arange(30.0).reshape(10, 3)
    verdict = judge_min_k_stability(sg.explainers.Custom(explain), rows, k=3, share=0.9, n_jobs=1).verdict
    assert (verdict.outcome, verdict.runs, verdict.measured) == ("PASS", 10, 9)
    assert asked.count(0) == 1
    asked.clear()
    verdict = judge_min_k_stability(sg.explainers.Custom(explain), rows, k=3, share=1.0, n_jobs=1).verdict
    assert (verdict.outcome, verdict.runs) == ("NOT MEASURED", 50)  # the tenth row decides
    assert asked.count(0) == 1


class Asks(sg.explainers.TableExplainer):
    """Asks a slow model for rows of a small grid, so that runs share most of them."""

    name = "asks"

    def settings(self):
        return {}

    def explain_encoded(self, rows, i, seed):
        drawn = np.random.default_rng(seed).integers(0, 6, size=(250, 3)).astype(float)
        drawn[0] = rows.encoded[i]
        return self.predictor(drawn)[:3, 0]


def slow(rows):
    time.sleep(1e-5 * len(rows))
    return rows @ [1.0, 10.0, 100.0]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_runs_in_blocks_are_those_in_one_go_and_no_model_row_is_evaluated_twice(n_jobs):
    rows = np.arange(12.0).reshape(4, 3) / 7
    whole = collect(Asks(slow), rows, runs=30, n_jobs=n_jobs, cache=False)
    with Collection(Asks(slow), rows, runs=30, n_jobs=n_jobs, cache=False) as collection:
        for runs in (3, 10, 11, 30):
            assert collection.advance(runs)
            part = collection.attributions()
            np.testing.assert_array_equal(part.values, whole.values[:runs])
            np.testing.assert_array_equal(part.seeds, whole.seeds[:runs])
    assert part.cost.rows_asked == whole.cost.rows_asked
    assert part.cost.rows == whole.cost.rows < 0.1 * whole.cost.rows_asked


def test_memory_of_model_rows_is_bounded(monkeypatch):
    """Without room, every block asks again for what it needs, and the values stay the same."""
    monkeypatch.setattr("stabgate.runs.MEMORY_KEPT", 0)
    rows = np.arange(6.0).reshape(2, 3) / 7
    whole = collect(Asks(slow), rows, runs=20, n_jobs=1, cache=False)
    with Collection(Asks(slow), rows, runs=20, n_jobs=1, cache=False) as collection:
        collection.advance(10)
        collection.advance(20)
    found = collection.attributions()
    np.testing.assert_array_equal(found.values, whole.values)
    assert whole.cost.rows < found.cost.rows <= 2 * whole.cost.rows


def test_a_budget_of_model_rows_ends_between_two_explanations():
    class Fresh(Asks):
        def explain_encoded(self, rows, i, seed):
            rng = np.random.default_rng(seed)
            self.predictor(rng.normal(size=(100, 3)))
            return np.array([3.0, 2.95, 1.0]) + 0.3 * rng.normal(size=3)

    def judged(rows, **options):
        explainer = Fresh(lambda Z: Z[:, 0])
        return judge_min_k_stability(explainer, X[:4], k=3, share=0.5, budget=f"{rows} rows", **options)

    # 8 rows check the model; a run of all four rows of X takes 400. Blocks end at 4, 10, 12, 14, 16 runs, ...
    for rows, runs in ((8 + 400 * 4, 4), (8 + 400 * 10 - 1, 10), (8 + 400 * 10 + 50, 10), (8 + 400 * 15 - 150, 14)):
        verdict = judged(rows, early=False, n_jobs=2).verdict
        assert rows <= verdict.cost.rows < rows + 100
        assert verdict.runs == runs
        assert verdict.outcome in ("INCONCLUSIVE", "FAIL")
        if verdict.outcome == "INCONCLUSIVE":
            assert verdict.reasons[0] == f"the budget of {rows} rows ended after {runs} of 50 runs"
    found = judged(8 + 400 * 4 - 100)
    assert (found.verdict.outcome, found.verdict.runs, found.verdict.estimate) == ("NOT MEASURED", 3, None)
    assert "the budget of 1508 rows ended after 3 of 50 runs" in found.message
    assert judged(10**9, early=False).verdict.runs == 50


def test_a_budget_of_time_ends_a_slow_gate_and_a_settled_one_is_decided():
    def explain(X, seed):
        time.sleep(0.01)
        return np.array([3.0, 2.95, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)

    verdict = judge_min_k_stability(sg.explainers.Custom(explain), X[:4], k=2, budget="1h", early=False).verdict
    assert (verdict.outcome, verdict.runs) == ("PASS", 50)
    verdict = judge_min_k_stability(sg.explainers.Custom(explain), X, k=2, budget="0.01s").verdict
    assert verdict.outcome == "NOT MEASURED"
    assert verdict.reasons[0].startswith("the budget of 0.01s ended after 0 of 50 runs")


def test_what_a_budget_left_is_in_the_cache_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("STABGATE_CACHE", str(tmp_path))
    from sklearn.linear_model import LogisticRegression

    rows = np.random.default_rng(0).normal(size=(30, 4))
    model = LogisticRegression().fit(rows, rows[:, 0] > 0)
    lime = sg.explainers.Lime(model, background=rows, num_samples=50)
    first = judge_min_k_stability(lime, rows[:3], k=2, early=False, budget="2000 rows").verdict
    assert 4 <= first.runs < 50
    whole = sg.measure_k_stability(lime, rows[:3], n_jobs=1)
    known = int(whole.attributions.provenance["cache"].split()[0])
    assert known >= 3 * first.runs
    again = judge_min_k_stability(lime, rows[:3], k=2, early=False, budget="2000 rows").verdict
    assert again.runs == 50
    assert again.cost.rows < 100
