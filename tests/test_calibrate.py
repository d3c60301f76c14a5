"""Calibration by A/A runs: rates and suggestions where they are known."""

from __future__ import annotations

import numpy as np
import pytest

import stabgate as sg
from stabgate.calibrate import calibrate_fass, calibrate_k
from stabgate.errors import InputError

ROWS = 10
X = np.arange(ROWS * 3, dtype=float).reshape(ROWS, 3)


def noisy(spreads):
    """Features 3, 2, 1 with a spread of each row's own."""

    def explain(row, seed):
        i = int(row.ravel()[0]) // 3
        return np.array([3.0, 2.0, 1.0]) + spreads[i] * np.random.default_rng(seed).normal(size=3)

    return sg.explainers.Custom(explain, name="noise")


def repeated(spreads, repeats=4, runs=20):
    explainer = noisy(spreads)
    return [sg.measure_k_stability(explainer, X, runs=runs, seed=s, n_jobs=1) for s in range(repeats)]


def test_rows_that_never_change_never_fail_and_may_be_required_as_they_are():
    settled = repeated([0.01] * 7 + [3.0] * 3)
    found = calibrate_k(settled, name="gate", k=3, share=0.7)
    assert (found.measured, found.error) == (0.7, 0.0)
    assert (found.rates.passed, found.rates.failed, found.rates.inconclusive) == (1.0, 0.0, 0.0)
    assert found.suggested == "k >= 3 on 70 % of rows"
    assert found.runs == 10
    assert found.margin_rate == 0.0


def test_a_requirement_that_is_out_of_reach_fails_always_and_another_one_is_suggested():
    found = calibrate_k(repeated([0.01] * 7 + [3.0] * 3), name="gate", k=3, share=0.9)
    assert found.rates.failed == 1.0
    assert found.suggested == "k >= 3 on 70 % of rows"
    assert found.suggested_rates.passed == 1.0
    assert "requirement: k >= 3 on 70 % of rows" in "\n".join(found.lines())


@pytest.mark.parametrize(("k", "said"), [(3, "ask for a smaller k"), (2, "(more samples) or a lower threshold")])
def test_where_no_order_is_stable_a_smaller_k_is_suggested_only_if_there_is_one(k, said):
    found = calibrate_k(repeated([3.0] * ROWS), name="gate", k=k, share=0.9)
    assert not found.suggested
    [note] = [note for note in found.notes if f"no share of rows can be required at k = {k}" in note]
    assert said in note
    assert ("smaller k" in note) == (k == 3)


def test_the_suggestion_is_four_standard_errors_below_what_is_measured():
    # d of two Gaussians 1 apart is 0.9 at a spread of about 0.29: these rows flip from seed to seed.
    results = repeated([0.01] * 5 + [0.27] * 5, repeats=6)
    found = calibrate_k(results, name="gate", k=2, share=0.9)
    p = np.stack([(r.meets(2) + r.chances(2)) / 2 for r in results]).mean(axis=0)
    error = np.sqrt((p * (1 - p)).sum()) / ROWS
    mean = np.mean([r.meets(2).mean() for r in results])
    assert found.error == pytest.approx(error)
    assert error > 0.03
    assert found.suggested == f"k >= 2 on {100 * np.floor(ROWS * (mean - 4 * error)) / ROWS:.0f} % of rows"
    assert found.rates.inconclusive > 0.3
    assert found.suggested_rates.acceptable


def test_a_gate_that_only_compares_gets_a_margin():
    found = calibrate_k(repeated([0.27] * ROWS), name="gate")
    assert found.rates is None
    assert not found.suggested
    assert found.margin > 0
    assert found.margin_rate <= 0.01


def test_too_few_other_or_unmeasured_measurements_are_refused():
    results = repeated([0.01] * ROWS, repeats=3)
    with pytest.raises(InputError, match="at least 3"):
        calibrate_k(results[:2], name="gate", k=2)
    other = sg.measure_k_stability(noisy([0.01] * ROWS), X[:5], runs=20, n_jobs=1)
    with pytest.raises(InputError, match="different rows"):
        calibrate_k([*results, other], name="gate", k=2)
    few = [sg.measure_k_stability(noisy([0.2] * ROWS), X, runs=3, seed=s, n_jobs=1) for s in range(3)]
    with pytest.raises(InputError, match="3 runs have no interval"):
        calibrate_k(few, name="gate", k=2)


def test_a_gate_of_maps_is_calibrated_by_its_intervals():
    pytest.importorskip("torch", reason="torch is not installed")
    from stabgate.perturbations import GaussianNoise

    images = np.random.default_rng(0).random((6, 1, 16, 16))

    class Blurred:
        def explain(self, X, *, seed, target=None):
            return np.asarray(X) + 0.05 * np.random.default_rng(seed).normal(size=np.shape(X))

    def model(batch):
        return batch.mean(dim=(1, 2, 3))[:, None]

    results = [
        sg.measure_fass(
            Blurred(), images, model=model, perturbations=[GaussianNoise(0.05)], invariance=("side", 0.0), seed=s
        )
        for s in range(4)
    ]
    found = calibrate_fass(results, name="maps", score=0.1)
    lows = np.array([r.interval[0] for r in results])
    assert found.measured == pytest.approx(np.mean([r.score for r in results]))
    assert found.rates.passed == pytest.approx(1.0)
    expected = np.floor(100 * (lows.mean() - 4 * lows.std(ddof=1))) / 100
    assert found.suggested == f"FASS >= {expected:g}"
    assert calibrate_fass(results, name="maps", score=1.0).rates.failed == pytest.approx(1.0)
