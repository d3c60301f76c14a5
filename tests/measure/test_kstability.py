"""k-stability of explainers: against a reading of the definition in plain loops, and each odd input's one answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

import stabgate as sg
from stabgate.measure.kstability import stability_of
from stabgate.runs import collect

X = np.arange(12.0).reshape(4, 3)


def gaussian(means, sds, name="gaussian"):
    """An explainer whose attributions are independent Gaussians."""
    means, sds = np.asarray(means, float), np.asarray(sds, float)
    return sg.explainers.Custom(
        lambda X, seed: means + sds * np.random.default_rng(seed).normal(size=len(means)), name=name
    )


def distance_by_grid(a, b):
    """[K] eq. 2 on a grid fine enough for 1e-5, with SciPy's own Silverman KDE."""
    p, q = gaussian_kde(a, "silverman"), gaussian_kde(b, "silverman")
    h = min(np.sqrt(p.covariance[0, 0]), np.sqrt(q.covariance[0, 0]))
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    far = 9 * max(np.sqrt(p.covariance[0, 0]), np.sqrt(q.covariance[0, 0]))
    grid = np.linspace(low - far, high + far, int((high - low + 2 * far) / (h / 40)) + 2)
    overlap = np.trapezoid(np.minimum(p(grid), q(grid)), grid)
    return 1 - overlap / (2 - overlap)


def k_by_loops(distances, order, threshold, rule):
    k = 1
    for s in range(2, len(order) + 1):
        pairs = (
            [(order[a], order[a + 1]) for a in range(s - 1)]
            if rule == "consecutive"
            else [(order[a], order[b]) for a in range(s) for b in range(a + 1, s)]
        )
        if all(distances[i, j] >= threshold for i, j in pairs):
            k = s
    return k


@pytest.mark.parametrize("rule", ["all-pairs", "consecutive"])
@pytest.mark.parametrize("value", ["magnitude", "signed", "adverse", "favourable", "absmean"])
def test_the_result_is_the_definition_read_in_loops(rule, value):
    explainer = gaussian([4.0, -3.2, 2.6, 0.1], [0.2, 0.25, 0.2, 0.3])
    rows = np.zeros((3, 4))
    result = sg.measure_k_stability(explainer, rows, runs=40, rule=rule, value=value, threshold=0.7)
    raw = result.attributions.values
    enter = {
        "magnitude": np.abs,
        "signed": lambda a: a,
        "absmean": lambda a: a,
        "adverse": lambda a: np.maximum(-a, 0),
        "favourable": lambda a: np.maximum(a, 0),
    }[value](raw)
    for i in range(3):
        means = enter[:, i].mean(axis=0)
        order = np.argsort(-(np.abs(means) if value == "absmean" else means), kind="stable")
        varied = np.ptp(enter[:, i], axis=0) > 0
        for a in range(4):
            for b in range(a):
                if varied[a] and varied[b]:
                    expected = distance_by_grid(enter[:, i, a], enter[:, i, b])
                    assert result.distances[i, a, b] == pytest.approx(expected, abs=2e-5)
        if varied.all():
            np.testing.assert_array_equal(result.ranking[i], order)
            assert result.k[i] == k_by_loops(result.distances[i], order, 0.7, rule)


def test_known_answers():
    assert sg.measure_k_stability(gaussian([3, 2, 1], [0.01] * 3), X).k.tolist() == [3] * 4
    assert sg.measure_k_stability(gaussian([3, 2.999, 1], [0.1] * 3), X).k.tolist() == [1] * 4
    assert sg.measure_k_stability(gaussian([3, 1.001, 1], [0.1] * 3), X).k.tolist() == [2] * 4
    rand = sg.measure_k_stability(sg.explainers.Random(), np.zeros((10, 8)))
    assert rand.median_k == 1
    assert rand.rand_k == 1


def test_membership_and_order_are_different_questions():
    # b and c change places, a stays first: the pair is a group, its order is not reliable, and d is far below.
    result = sg.measure_k_stability(gaussian([9, 5, 5.01, 1], [0.1, 0.3, 0.3, 0.1]), np.zeros((5, 4)))
    assert result.k.tolist() == [2] * 5
    assert result.meets(2, "order").all()
    assert not result.meets(2, "membership").any()  # the second place may still change
    assert result.meets(3, "membership").all()
    assert not result.meets(3, "order").any()
    assert not result.meets(3, "both").any()
    assert result.certified_groups()[0].tolist() == [True, False, True]


def test_a_deterministic_explainer_is_said_to_be_one():
    result = sg.measure_k_stability(gaussian([3, 2, 1], [0, 0, 0]), X)
    assert result.deterministic
    assert result.k.tolist() == [3] * 4
    assert any("no randomness was exercised" in note for note in result.notes())
    noise = sg.measure_k_stability(gaussian([3, 2, 1], [1e-16] * 3), X)
    assert noise.deterministic


def test_equal_constant_features_are_tied_whatever_their_column():
    for order in ([2, 2, 1], [1, 2, 2], [2, 1, 2]):
        result = sg.measure_k_stability(gaussian(order, [0, 0, 0]), X)
        assert result.k.tolist() == [1] * 4


def test_a_false_separation_by_atoms_is_said():
    def explain(X, seed):
        rng = np.random.default_rng(seed)
        return np.array([5.0 + 0.01 * rng.normal(), 1.0 if rng.random() < 0.1 else 0.0, 0.0])

    result = sg.measure_k_stability(sg.explainers.Custom(explain), X, runs=60)
    assert result.k.tolist() == [3] * 4  # the Dirac limit of [K] Proposition 1
    assert result.k_mixed.tolist() == [2] * 4
    assert any("density='mixed' changes k on 4 of them" in note for note in result.notes())
    mixed = sg.measure_k_stability(sg.explainers.Custom(explain), X, runs=60, density="mixed")
    assert mixed.k.tolist() == result.k_mixed.tolist()


def test_a_k_that_hinges_on_the_threshold_is_said():
    base = sg.measure_k_stability(gaussian([3, 2.7, 1], [0.1] * 3), X[:1])
    d = float(base.distances[0, 0, 1])
    close = stability_of(base.attributions, threshold=d + 1e-7)
    assert close.hinges.tolist() == [True]
    assert any("hinges" in note for note in close.notes())
    assert stability_of(base.attributions, threshold=d + 1e-5).hinges.tolist() == [False]


def test_rows_that_could_not_be_measured_have_no_k():
    def explain(X, seed):
        if X[0, 0] == 3:
            raise ValueError("singular")
        return np.array([3.0, 2, 1]) + 0.01 * np.random.default_rng(seed).normal(size=3)

    result = sg.measure_k_stability(sg.explainers.Custom(explain), X, runs=10)
    assert result.k.tolist() == [3, 0, 3, 3]
    assert result.ranking[1].tolist() == [-1, -1, -1]
    assert np.isnan(result.distances[1]).all()
    assert result.median_k == 3
    frame = result.to_frame()
    assert frame["k"].isna().tolist() == [False, True, False, False]
    assert "singular" in frame["reason"][1]
    assert result.curve().n == 3
    assert np.isfinite(result.heatmap()).all()


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(5)), st.integers(0, 10_000))
def test_k_does_not_depend_on_the_order_of_columns(order, seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=(12, 2, 5)) * [0, 0.3, 1, 0, 0.3] + [1, 2, 3, 1, 2], 1)
    seeds = np.zeros((12, 2), np.uint32)
    a = stability_of(sg.Attributions(values, tuple("abcde"), (0, 1), seeds), threshold=0.6)
    b = stability_of(
        sg.Attributions(values[:, :, order], tuple("abcde"[j] for j in order), (0, 1), seeds), threshold=0.6
    )
    assert a.k.tolist() == b.k.tolist()


def test_methods_are_compared_as_in_the_paper():
    steady, shaky = gaussian([3, 2, 1], [0.01] * 3), gaussian([3, 2, 1], [2.0] * 3)
    table = sg.compare_methods({n: sg.measure_k_stability(e, X, runs=20) for n, e in {"a": steady, "b": shaky}.items()})
    assert table.loc["a", "b"] == 1.0
    assert table.loc["b", "a"] == 0.0
    assert table.loc["a", "a"] == table.loc["b", "b"] == 1.0
    assert table.attrs["instances"] == 4
    other = sg.measure_k_stability(steady, X, runs=21)
    with pytest.raises(sg.InputError, match=r"'a' and 'b' differ in runs \(20 and 21\)"):
        sg.compare_methods({"a": sg.measure_k_stability(steady, X, runs=20), "b": other})


def test_results_over_other_features_are_not_compared():
    frame = pd.DataFrame(np.zeros((2, 4)), columns=list("abcd"))
    explainer = gaussian([4, 3, 2, 1], [0.01] * 4)
    results = {
        "plain": sg.measure_k_stability(explainer, frame, runs=5),
        "grouped": sg.measure_k_stability(explainer, frame, runs=5, groups={"g": frame.columns[:2]}),
    }
    with pytest.raises(sg.InputError, match="'plain' and 'grouped' differ in features"):
        sg.compare_methods(results)
    with pytest.raises(sg.InputError, match="results by name"):
        sg.compare_methods([results["plain"]])


def test_groups_are_ranked_as_one_feature():
    frame = pd.DataFrame(np.zeros((2, 4)), columns=["age_y", "sex", "age_o", "x"])
    explainer = gaussian([1.5, 2, 1.6, 0.5], [0.01] * 4)
    plain = sg.measure_k_stability(explainer, frame, runs=10)
    grouped = sg.measure_k_stability(explainer, frame, runs=10, groups={"age": ["age_y", "age_o"]})
    assert grouped.features == ("age", "sex", "x")
    np.testing.assert_allclose(
        grouped.attributions.values[:, :, 0], plain.attributions.values[:, :, [0, 2]].sum(axis=2), rtol=1e-15
    )
    assert [grouped.features[j] for j in grouped.ranking[0]] == ["age", "sex", "x"]
    for groups, message in [
        ({"age": ["age_y", "aeg_o"]}, "'aeg_o', which is not a feature; did you mean 'age_o'"),
        ({"a": ["age_y"], "b": ["age_y"]}, "stands in group 'a' and again in 'b'"),
        ({"sex": ["age_y", "age_o"]}, "name of a feature that is not in it"),
        ({"age": "age_y"}, "must be a list"),
    ]:
        with pytest.raises(sg.InputError, match=message):
            sg.measure_k_stability(explainer, frame, runs=10, groups=groups)


def test_rows_are_chosen_by_id_by_predicate_or_as_a_stable_sample():
    frame = pd.DataFrame(np.arange(60.0).reshape(20, 3), index=[f"r{i}" for i in range(20)])
    explainer = sg.explainers.Random()
    chosen = collect(explainer, frame, runs=2, rows=["r7", "r2"])
    assert chosen.instances == ("r7", "r2")
    np.testing.assert_array_equal(chosen.values[:, 0], collect(explainer, frame, runs=2).values[:, 7])
    assert collect(explainer, frame, runs=2, rows=lambda X: X[0] > 50).instances == ("r17", "r18", "r19")
    array = collect(explainer, frame.to_numpy(), runs=2, rows=[5, 3])
    assert array.instances == (5, 3)
    np.testing.assert_array_equal(array.values[:, 1], collect(explainer, frame.to_numpy(), runs=2).values[:, 3])
    small = collect(explainer, frame.iloc[:15], runs=2, rows=6).instances
    large = collect(explainer, frame, runs=2, rows=6).instances
    assert len(set(small)) == 6
    assert set(large) & set(frame.index[:15]) <= set(small)  # new rows displace, old ones do not reshuffle
    for rows, message in [
        (["r7", "nobody"], "'nobody', which is not among the 20 row ids"),
        (["r7", "r7"], "names 'r7' 2 times"),
        ([], "rows is empty"),
        (21, "a sample of 1 to 20"),
        (lambda X: X[0] < 0, "chose none"),
        (lambda X: [1, 2], "expected 20 booleans"),
        ("r7", "give ids"),
    ]:
        with pytest.raises(sg.InputError, match=message):
            collect(explainer, frame, runs=2, rows=rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X[:, :1]}, "X has one feature, 'x0'"),
        ({"runs": 1}, "runs=1"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": 1.2}, "threshold"),
        ({"rule": "all"}, "rule"),
        ({"value": "abs"}, "value"),
        ({"density": "hist"}, "density"),
        ({"metric": "l2"}, "metric"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"bandwidth": "wide"}, "bandwidth"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_explained(change, message):
    calls = []

    def explain(X, seed):
        calls.append(1)
        return np.ones(X.shape[1])

    arguments = {"X": X, "runs": 5} | change
    with pytest.raises(sg.InputError, match=message):
        sg.measure_k_stability(sg.explainers.Custom(explain), arguments.pop("X"), **arguments)
    assert not calls
