"""Aggregates, intervals, floor and re-seed reference against NumPy, SciPy and scores by hand."""

from __future__ import annotations

import pickle
from dataclasses import asdict
from itertools import combinations

import numpy as np
import pytest
import torch
from fass_cases import Gradient, Told, adds_up, bright, flat, noise, photos, small_network
from scipy import stats

import stabgate as sg
from stabgate.errors import InputError
from stabgate.measure.fass.aggregates import clustered_interval
from stabgate.perturbations import Brightness, GaussianNoise, sweep
from stabgate.seeds import row_seed
from stabgate.similarity import compare_maps


def test_aggregates_are_means_over_retained_pairs():
    images = (photos(12) * torch.linspace(0.5, 1.5, 12)[:, None, None, None]).clamp(0, 1)
    result = sg.measure_fass(Told(bright), images)
    frame = result.to_frame()
    kept = frame[frame["status"] == "retained"]
    assert 12 < len(kept) < 60
    assert result.score == pytest.approx(kept["fass"].mean(), abs=1e-12)
    assert result.components == pytest.approx(kept[["ssim", "spearman", "jaccard"]].mean().to_dict(), abs=1e-12)
    assert result.retention == len(kept) / 60
    for column, summaries in (("perturbation", result.by_perturbation()), ("family", result.by_family())):
        assert [s.name for s in summaries] == list(dict.fromkeys(frame[column]))
        for s in summaries:
            mine = frame[frame[column] == s.name]
            held = mine[mine["status"] == "retained"]
            assert (s.attempted, s.retained) == (len(mine), len(held))
            assert s.fass == pytest.approx(held["fass"].mean(), abs=1e-12)
            assert s.retention == pytest.approx(len(held) / len(mine))
            assert s.images == held["image"].nunique()
    assert [pair.fass for pair in result.worst(3)] == sorted(kept["fass"])[:3]
    assert adds_up(result)


def test_the_interval_is_students_over_images_where_every_image_has_as_many_pairs():
    rng = np.random.default_rng(0)
    values = 0.5 + 0.1 * rng.normal(size=(7, 1)) + 0.05 * rng.normal(size=(7, 5))
    found = clustered_interval(values.ravel().tolist(), np.repeat(np.arange(7), 5).tolist())
    means = values.mean(axis=1)
    expected = stats.t.interval(0.95, 6, loc=means.mean(), scale=stats.sem(means))
    assert found == pytest.approx(expected, abs=1e-12)
    assert clustered_interval([0.4, 0.5], ["a", "a"]) is None
    assert clustered_interval([0.999, 1.0, 0.9], ["a", "b", "c"])[1] == 1.0


@pytest.mark.slow
def test_the_interval_covers_with_few_images_and_unequal_retention():
    """Eight images, one to five pairs each, correlated within the image: 95 % within simulation error."""
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(2000):
        sizes = rng.integers(1, 6, 8)
        clusters = np.repeat(np.arange(8), sizes)
        values = 0.5 + 0.1 * rng.normal(size=8)[clusters] + 0.1 * rng.normal(size=len(clusters))
        low, high = clustered_interval(values.tolist(), clusters.tolist())
        hits.append(low <= 0.5 <= high)
    assert 0.93 <= np.mean(hits) <= 0.985


def test_the_floor_is_the_score_against_other_images():
    images = photos(4)
    result = sg.measure_fass(Told(flat), images, perturbations=[Brightness(0.9)])
    couples = [compare_maps(images[i], images[j]).fass for i, j in combinations(range(4), 2)]
    assert result.floor == pytest.approx(np.mean(couples), abs=1e-12)
    floor, reseed = result.references["told"]
    assert (floor.pairs, floor.images) == (6, 4)
    assert result.reseed == 1.0
    assert reseed.note == "deterministic: another seed gave the same map"
    assert result.score_above_floor == pytest.approx((result.score - result.floor) / (1 - result.floor))


@pytest.mark.parametrize("protocol", ["aligned", "published"])
def test_the_reseed_reference_is_the_score_of_two_seeds(protocol):
    def explain(images, seeds):
        return images.mean(dim=1, keepdim=True) + 0.3 * noise(images, seeds)

    images = photos(5)
    result = sg.measure_fass(Told(flat, explain), images, perturbations=[Brightness(0.9)], protocol=protocol, seed=3)
    first, second = (explain(images, [row_seed(3, run, i) for i in range(5)]) for run in (0, 1))
    expected = [compare_maps(a, b, protocol=protocol).fass for a, b in zip(first, second, strict=True)]
    assert result.reseed == pytest.approx(np.mean(expected), abs=1e-12)
    assert result.references["told"][1].images == 5
    assert not result.only_noise


def test_references_come_from_a_sample_of_stated_size():
    explainer = Told(flat, noise)
    result = sg.measure_fass(explainer, photos(12), perturbations=[Brightness(0.9)], references=4)
    floor, reseed = result.references["told"]
    assert (floor.images, floor.pairs, reseed.images) == (4, 6, 4)
    assert explainer.explained == 12 + 12 + 4
    assert result.cost.reference_maps == 4
    none = sg.measure_fass(explainer, photos(3), perturbations=[Brightness(0.9)], references=0)
    assert (none.floor, none.reseed) == (None, None)


def test_one_image_has_no_floor_and_says_so():
    result = sg.measure_fass(Told(flat), photos(1), perturbations=[Brightness(0.9)])
    assert result.floor is None
    assert result.score_above_floor is None
    assert result.interval is None
    assert result.reseed == 1.0
    assert "no floor: the floor needs the maps of two images" in result.notes()


def test_only_one_retained_image_takes_another_for_the_floor():
    images = photos(3) * torch.tensor([0.9, 0.9, 1.0])[:, None, None, None]
    images[2] = images[2].clamp(min=0.6)
    explainer = Told(bright)
    result = sg.measure_fass(explainer, images, perturbations=[Brightness(1.2)])
    assert [pair.status for pair in result.pairs] == ["prediction changed", "prediction changed", "retained"]
    assert result.floor is not None
    assert result.references["told"][0].images == 2


def test_noise_is_known_as_noise_whatever_its_score():
    """Equal seeds make maps of pure noise agree perfectly; the re-seed reference tells."""
    result = sg.measure_fass(Told(flat, noise), photos(8), perturbations=[Brightness(0.9), GaussianNoise(0.1)])
    assert result.score == 1.0
    assert result.only_noise
    assert any("only a shared seed makes pairs agree" in note for note in result.notes())
    published = sg.measure_fass(
        Told(flat, noise), photos(8), perturbations=[Brightness(0.9), GaussianNoise(0.1)], protocol="published"
    )
    assert published.score == pytest.approx(published.floor, abs=0.02)
    assert any("is at its floor" in note for note in published.notes())


@pytest.mark.parametrize("protocol", ["aligned", "published"])
def test_the_random_baseline_scores_its_floor(protocol):
    """SSIM 0, rank correlation 0, and an overlap of s / (2 - s) for a share s of the pixels."""
    random = Told(flat, noise)
    random.baseline_of_calibration = True
    result = sg.measure_fass(random, photos(10), perturbations=[Brightness(0.9), GaussianNoise(0.1)], protocol=protocol)
    assert result.score == pytest.approx(result.floor, abs=0.02)
    assert result.components["spearman"] == pytest.approx(0.5, abs=0.02)
    share = 0.05 if protocol == "aligned" else 100 / 1024
    assert result.components["jaccard"] == pytest.approx(share / (2 - share), abs=0.02)


def test_images_that_are_alike_are_not_called_noise():
    frames = photos(1).expand(6, -1, -1, -1) + 1e-7 * torch.arange(6.0)[:, None, None, None]
    result = sg.measure_fass(Told(flat), frames.clamp(0, 1), perturbations=[Brightness(0.9)])
    assert result.floor > 0.98
    assert not result.only_noise
    assert result.score_above_floor is None
    assert any(note.startswith("the floor is 1.00: these images, or these maps, are alike") for note in result.notes())
    assert sg.assert_min_fass(result, score=0.5).passed


def test_the_random_baseline_is_not_said_to_agree():
    random = sg.explainers.Random()
    result = sg.measure_fass(random, photos(6), perturbations=[Brightness(0.9)], model=flat)
    assert result.only_noise
    (note,) = [note for note in result.notes() if "sampling noise" in note]
    assert note.endswith("the maps are sampling noise")


def test_a_component_without_weight_is_not_the_one_that_fell():
    result = sg.measure_fass(Told(flat), photos(3), perturbations=[Brightness(1.5)], weights=[0, 1, 0])
    assert all(result.fell(pair)[0] == "spearman" for pair in result.pairs)


def test_the_repr_is_one_line():
    result = sg.measure_fass({"a": Told(flat), "b": Told(flat, lambda x, s: 0 * x)}, photos(2), perturbations="noise")
    assert (
        repr(result)
        == f"Fass(a: {result['a'].score:.3f} over 2 of 2 pairs (100 %); b: not measured over 0 of 2 pairs (0 %))"
    )
    assert "no signal (both maps constant" in " ".join(result.notes())
    assert "b: no floor: " in " ".join(result.notes())


def test_no_signal_anywhere_is_no_score_anywhere():
    result = sg.measure_fass(Told(flat, lambda images, seeds: 0 * images), photos(5))
    assert result.summary.no_signal == 25
    assert result.score is None
    assert result.components == {"ssim": None, "spearman": None, "jaccard": None}
    assert result.floor is None
    assert result.worst() == ()
    assert adds_up(result)


def test_a_sweep_gives_a_curve_from_mild_to_harsh():
    images = photos(4)
    result = sg.measure_fass(Told(flat), images, perturbations=sweep("noise", [0.3, 0.02, 0.1]))
    curve = result.curve()
    assert [point.severity for point in curve] == [0.02, 0.1, 0.3]
    scores = [point.fass for point in curve]
    assert scores == sorted(scores, reverse=True)
    mixed = sg.measure_fass(Told(flat), images, perturbations=[Brightness(0.9), *sweep("noise", [0.1, 0.2])])
    assert [point.name for point in mixed.curve("noise")] == ["noise σ 0.1", "noise σ 0.2"]
    with pytest.raises(InputError, match="several kinds"):
        mixed.curve()
    with pytest.raises(InputError, match="was not measured"):
        mixed.curve("rotation")


def test_the_record_names_the_pair_of_model_and_method():
    network = small_network()
    result = sg.measure_fass(Gradient(network), photos(3), perturbations="mild", seed=5, target=2)
    record = result.provenance
    assert (record["model"], record["seed"], record["protocol"]) == ("Sequential", 5, "aligned")
    assert record["methods"]["gradient"]["explainer"] == "gradient"
    assert record["perturbations"][0] == "rotation 5°"
    assert {pair.target for pair in result.pairs} == {2}


def test_results_travel_without_the_model():
    result = sg.measure_fass(Told(flat), photos(3), perturbations="mild")
    again = pickle.loads(pickle.dumps(result))
    assert [asdict(pair) for pair in again.pairs] == [asdict(pair) for pair in result.pairs]
    assert again.score == result.score
    assert again.milder("rotation 5°", min_retention=0.1, min_pairs=5) is None


def test_equal_seeds_give_equal_results_and_other_seeds_other_noise():
    explainer = Told(flat, lambda images, seeds: images + noise(images, seeds))
    first, second, other = (
        sg.measure_fass(explainer, photos(3), perturbations="noise", seed=seed).to_frame() for seed in (1, 1, 2)
    )
    assert first.equals(second)
    assert not first["fass"].equals(other["fass"])
