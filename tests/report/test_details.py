"""What the page is given of a gate: the numbers of the result, most useful first, and never more than fits."""

from __future__ import annotations

import base64
import io
import json

import measured_sessions as sessions
import numpy as np
import pytest
from PIL import Image
from scipy.stats import gaussian_kde

import stabgate as sg
from stabgate import separability as sep
from stabgate.gate import judge_min_k_stability
from stabgate.gate_fass import judge_min_fass
from stabgate.report.details import details_of, fit
from stabgate.report.pictures import ABOVE, BELOW, ZERO, coloured
from stabgate.report.session import GateReport


def details(result, kind="k-stability", **asked):
    judge = judge_min_k_stability if kind == "k-stability" else judge_min_fass
    judged = judge(result, **asked)
    found = details_of(GateReport("g", kind, "", "", judged.verdict), judged.result)
    assert json.loads(json.dumps(found, allow_nan=False)) == found  # plain JSON, without NaN
    return found


@pytest.fixture(scope="module")
def shaky():
    return sg.measure_k_stability(sessions.noisy(0.15), sessions.rows(), runs=20)


def test_curve_heat_map_and_histogram_are_those_of_the_result(shaky):
    found = details(shaky, k=4)
    assert found["curve"]["mean"] == pytest.approx(shaky.curve().mean, rel=1e-3)
    assert found["curve"]["half_width"] == pytest.approx(shaky.curve().half_width, rel=1e-3)
    assert found["curve"]["rand"] == pytest.approx(shaky.rand_curve().mean, rel=1e-3)
    np.testing.assert_allclose(found["heat"], shaky.heatmap(), atol=5e-3)
    counts = {int(k): sum(pair) for k, pair in found["k"].items()}
    assert counts == {int(k): int(n) for k, n in zip(*np.unique(shaky.k, return_counts=True), strict=True)}
    assert sum(pair[0] for pair in found["k"].values()) == (shaky.k >= 4).sum()


def test_the_curve_of_rand_is_that_of_uniform_attributions(shaky):
    random = np.random.default_rng(5).random((20, 400, 6))
    distances = sep.distance_matrix(random)
    expected = sep.separability_curve(distances, sep.rank_features(random.mean(axis=0), distances=distances))
    np.testing.assert_allclose(shaky.rand_curve().mean, expected.mean, atol=0.1)  # RAND has as many rows as the result
    assert shaky.rand_curve().mean.mean() == pytest.approx(expected.mean.mean(), abs=0.03)


def test_rows_below_the_requirement_come_first_with_what_stops_them(shaky):
    rows = details(shaky, k=4)["rows"]
    assert len(rows) == 10
    failing = [row for row in rows if not row["meets"]]
    assert rows[: len(failing)] == failing
    assert [row["k"] for row in failing] == sorted(row["k"] for row in failing)
    names = details(shaky, k=4)["features"]
    for row in failing:
        i = [str(name) for name in shaky.instances].index(row["id"])
        expected = [(a, b) for a, b, *_ in shaky.confusions(i)]
        assert [(names[a], names[b]) for a, b, *_ in row["blockers"]] == expected[:5]
        assert all(d < 0.9 for _, _, d, _ in row["blockers"])  # never rounded onto the threshold


def test_distributions_are_the_densities_that_scipy_makes_of_the_runs(shaky):
    found = details(shaky, k=4)
    row = found["rows"][0]
    i = [str(name) for name in shaky.instances].index(row["id"])
    for rank, one in enumerate(row["distributions"]):
        values = np.abs(shaky.attributions.values[:, i, shaky.ranking[i, rank]])
        kernel = gaussian_kde(values, bw_method="silverman")
        assert one["points"] == pytest.approx(np.sort(values), rel=1e-3)
        assert one["h"] == pytest.approx(kernel.factor * values.std(ddof=1), rel=1e-3)
        assert found["features"][row["ranking"][rank]] == shaky.features[shaky.ranking[i, rank]]


def test_repeated_values_are_atoms_and_late_digits_survive():
    samples = np.array([[0.0, 1e6 + 1e-3 * r] for r in range(8)] + [[0.0, 1e6 + 0.0045], [5.0, 1e6 + 0.0046]])
    constant, late = sep.distributions(np.column_stack([np.full(10, 2.0), samples[:, 1]]))
    assert constant.atoms == ((2.0, 1.0),)
    assert len(constant.points) == 0
    assert np.ptp(late.points) == pytest.approx(np.ptp(samples[:, 1]), rel=1e-6)
    mixed = sep.distributions(samples, density="mixed")[0]
    assert dict(mixed.atoms) == pytest.approx({0.0: 0.9, 5.0: 0.1})

    def explain(X, seed):
        return np.array([1e6, 5e5]) + 1e-3 * np.random.default_rng(seed).normal(size=2)

    result = sg.measure_k_stability(sg.explainers.Custom(explain), np.zeros((2, 2)), runs=10)
    points = details(result, k=2)["rows"][0]["distributions"][0]["points"]
    assert len(set(points)) == 10
    assert points == pytest.approx(sorted(result.attributions.values[:, 0, 0]), abs=2e-5)


def test_rows_that_were_not_measured_say_why():
    def explain(X, seed):
        if np.asarray(X)[0, 0] > 1:
            raise ValueError("too large")
        return sessions.MEANS

    result = sg.measure_k_stability(sg.explainers.Custom(explain), sessions.rows(4), runs=4)
    rows = details(result, k=2)["rows"]
    lost = [row for row in rows if "reason" in row]
    assert len(lost) == 2
    assert all("too large" in row["reason"] and row["k"] == 0 and not row["meets"] for row in lost)


@pytest.fixture(scope="module")
def maps():
    explainer = sg.explainers.Captum(sessions.small_network(), method="saliency")
    return sg.measure_fass(explainer, sessions.photos(6), perturbations="mild")


def test_the_worst_pair_of_each_perturbation_is_kept_with_its_maps(maps):
    for label in (p.label for p in maps.perturbations):
        scores = sorted(pair.fass for pair in maps.pairs if pair.perturbation == label and pair.fass is not None)
        kept = [one.fass for one in maps.examples if one.perturbation == label]
        assert kept == pytest.approx(scores[:2])
    rotated = next(one for one in maps.examples if one.perturbation.startswith("rotation"))
    assert rotated.before.shape == rotated.after.shape == (32, 32)
    assert np.isnan(rotated.after[0, 0])  # a corner that the rotated copy does not show
    assert np.isfinite(rotated.after[16, 16])
    assert np.isfinite(rotated.before).all()
    pair = next(one for one in maps.examples if one.perturbation.startswith("brightness"))
    np.testing.assert_allclose(pair.original, sessions.photos(6)[pair.image].permute(1, 2, 0) * 255, atol=0.51)


def test_large_images_are_kept_small_by_averages_of_areas():
    import torch

    image = torch.zeros(2, 3, 448, 224)
    image[:, :, :224] = 1.0
    explainer = sg.explainers.Custom(lambda X, seed: X.sum(1, keepdim=True), name="itself")
    result = sg.measure_fass(explainer, image, model=lambda x: torch.eye(2)[[0] * len(x)], perturbations="brightness")
    one = result.examples[0]
    assert one.original.shape == (112, 56, 3)
    assert one.before.shape == (112, 56)
    assert one.before[0, 0] == pytest.approx(3.0)
    assert one.before[-1, -1] == 0.0


def test_pictures_are_png_of_one_colour_scale(maps):
    found = details(maps, "FASS", score=0.2)
    assert len(found["pairs"]) == 10
    assert len({pair["perturbation"] for pair in found["pairs"][:5]}) == 5  # one of each first
    for name in ("original", "perturbed", "before", "after", "difference"):
        uri = found["pairs"][0][name]
        image = Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
        assert (image.format, image.size) == ("PNG", (32, 32))
    colours = coloured(np.array([[-1.0, 0.0, 1.0, 7.0, np.nan]]))
    assert colours[0, :, :3].tolist()[:4] == [list(BELOW), list(ZERO), list(ABOVE), list(ABOVE)]
    assert colours[0, :, 3].tolist() == [255, 255, 255, 255, 0]


def test_every_attempted_pair_is_in_the_parts(maps):
    found = details(maps, "FASS", score=0.2)
    whole = found["parts"][0]
    assert whole["attempted"] == found["pairs_of"] == 30
    assert whole["fass"] == pytest.approx(maps.score, rel=1e-3)
    assert sum(part["attempted"] for part in found["parts"][1:]) == 30
    assert found["references"]["floor"]["fass"] == pytest.approx(maps.floor, rel=1e-3)


def test_details_are_cut_from_the_least_useful_end_and_problems_keep_more():
    gates = [{"rows_of": 50, "k": {}, "rows": [{"id": str(i), "pad": "x" * 90} for i in range(50)]} for _ in range(4)]
    kept = fit(gates, [True, False, False, False], 6_000)
    assert len(json.dumps(kept)) <= 6_000
    assert len(json.dumps(kept)) > 5_000
    sizes = [len(gate["rows"]) for gate in kept]
    assert sizes[0] > 2 * sizes[1] > 0
    assert max(sizes[1:]) - min(sizes[1:]) <= 1
    for gate, size in zip(kept, sizes, strict=True):
        assert [row["id"] for row in gate["rows"]] == [str(i) for i in range(size)]
        assert gate["rows_of"] == 50
    assert fit(gates, [False] * 4, 10**9) == gates
    assert fit([None, gates[0]], [True, True], 10) == [None, None]
