"""Which pairs are attempted, what is explained for them, and what their scores are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fass_cases import Gradient, Told, adds_up, bright, flat, noise, photos, small_network

import stabgate as sg
from stabgate.errors import InputError, ModelError
from stabgate.perturbations import Brightness, GaussianNoise, Jpeg, Perturbation, Rotation, Translation
from stabgate.seeds import row_seed
from stabgate.similarity import compare_maps


def test_retention_is_what_the_pixels_say():
    images = photos(20) * torch.linspace(0.3, 1.6, 20)[:, None, None, None]
    images = images.clamp(0, 1)
    result = sg.measure_fass(Told(bright), images, perturbations=[Brightness(1.5)])
    before = images.numpy().mean(axis=(1, 2, 3)) > 0.5
    after = np.clip(images.numpy() * np.float32(1.5), 0, 1).mean(axis=(1, 2, 3)) > 0.5
    assert 0 < (before != after).sum() < 20
    frame = result.to_frame()
    assert (frame["status"] == "retained").tolist() == (before == after).tolist()
    assert set(frame.loc[frame["status"] != "retained", "status"]) == {"prediction changed"}
    assert frame.loc[frame["status"] != "retained", "reason"].eq("output 0 became 1").all()
    assert frame["fass"].notna().tolist() == (before == after).tolist()
    assert result.retention == pytest.approx((before == after).mean())
    assert frame["target"].tolist() == before.astype(int).tolist()
    assert adds_up(result)


def test_maps_are_made_of_originals_once_and_of_retained_copies_only():
    images = (photos(20) * torch.linspace(0.3, 1.6, 20)[:, None, None, None]).clamp(0, 1)
    explainer = Told(bright)
    result = sg.measure_fass(explainer, images, perturbations=[Brightness(1.5), Brightness(1.1)], references=0)
    retained = [pair for pair in result.pairs if pair.status == "retained"]
    assert explainer.explained == len({pair.image for pair in retained}) + len(retained)
    assert result.cost.maps == explainer.explained
    assert result.cost.saved == pytest.approx(1 - explainer.explained / 80)
    assert 0 < len(retained) < 40


def test_passes_are_counted_in_images():
    images, network = photos(6), small_network()
    result = sg.measure_fass(Gradient(network), images, perturbations=["rotation", "jpeg"])
    retained = sum(pair.status == "retained" for pair in result.pairs)
    explained = len({pair.image for pair in result.pairs if pair.status == "retained"}) + retained
    cost = result.cost
    assert (cost.forward, cost.backward) == (explained, explained)
    # Originals, two perturbations, and four images asked twice to see whether the network repeats itself.
    assert cost.predictions == 6 + 12 + 8
    # A second seed changes nothing, which two images are enough to see.
    assert (cost.reference_maps, cost.reference_forward) == (2, 2)


def test_methods_share_the_predictions_and_score_as_they_would_alone():
    images, network = photos(5), small_network()
    both = sg.measure_fass({"gradient": Gradient(network), "noise": Told(network, noise)}, images, perturbations="mild")
    alone = sg.measure_fass(Gradient(network), images, perturbations="mild")
    assert both.predictions == alone.predictions == 5 + 25 + 8
    assert both.methods == ("gradient", "noise")
    assert both["gradient"].score == alone.score
    assert len(both.pairs) == 50
    assert len(both["noise"].pairs) == 25
    assert {s.method for s in both.by_method()} == {"gradient", "noise"}
    with pytest.raises(InputError, match=r"each has its own number: say which, as in result\['gradient'\]"):
        _ = both.score
    with pytest.raises(InputError, match="no method 'lime' was measured"):
        both["lime"]
    assert adds_up(both)


@pytest.mark.parametrize("perturbation", [Rotation(15), Translation(20), Brightness(0.8), GaussianNoise(0.1), Jpeg(40)])
@pytest.mark.parametrize("protocol", ["aligned", "published"])
def test_scores_are_those_of_the_two_maps(perturbation, protocol):
    images = photos(3)
    result = sg.measure_fass(Told(flat), images, perturbations=perturbation, protocol=protocol, seed=4)
    resolved = perturbation.for_protocol(protocol)
    seeds = [row_seed(4, 0, ("perturbation", perturbation.label, i)) for i in range(3)] if perturbation.random else None
    copies = resolved.apply(images, seeds=seeds)
    expected = compare_maps(images, copies, protocol=protocol, alignment=resolved if protocol == "aligned" else None)
    frame = result.to_frame()
    for name, column in expected.scores().items():
        assert frame[name].tolist() == column.data.tolist()


def test_aligned_pairs_share_seed_segments_and_design_and_published_ones_do_not():
    def cut(images, seeds):
        columns = torch.arange(images.shape[-1]) // 8
        return torch.stack([(columns + seed % 2).expand(images.shape[-2:]) for seed in seeds])

    images = photos(2)
    own = [row_seed(7, 0, i) for i in range(2)]
    aligned, published = (Told(flat, cut=cut) for _ in range(2))
    sg.measure_fass(aligned, images, perturbations=[Translation(70)], seed=7, references=0)
    (_, _, first, labels, design), (_, _, second, warped, kept) = aligned.asked
    assert first == second == own
    assert design is None
    assert torch.equal(labels, cut(images, own))
    # Ten columns to the right: the last segment is gone, and the design still knows that there were so many.
    assert torch.equal(warped[..., 10:], labels[..., :-10])
    assert (warped[..., :10] == labels[..., :1]).all()
    assert kept == [int(one.max()) + 1 for one in labels]

    sg.measure_fass(published, images, perturbations=[Translation(70)], seed=7, references=0, protocol="published")
    (_, _, first, labels, _), (copies, _, second, again, kept) = published.asked
    assert first == own
    assert not set(second) & set(first)
    assert torch.equal(again, cut(copies, second))
    assert kept is None


def test_numbers_of_an_image_depend_on_its_id_and_not_on_its_company():
    images = photos(6)
    explainer = Told(flat, lambda images, seeds: images + noise(images, seeds))
    options = {"perturbations": "published", "references": 0}
    whole = sg.measure_fass(explainer, images, ids=list("abcdef"), **options).to_frame()
    part = sg.measure_fass(explainer, images[[4, 1]], ids=["e", "b"], **options).to_frame()
    for name in ("b", "e"):
        assert whole[whole["image"] == name]["fass"].tolist() == part[part["image"] == name]["fass"].tolist()


def test_one_culprit_loses_only_itself():
    images = photos(9)
    images[2, :, 0, 0] = 0.123
    images[5, :, 0, 0] = 0.987

    def explain(images, seeds):
        if bool((images[:, 0, 0, 0] == 0.123).any()):
            raise ValueError("no such thing")
        maps = images.clone()
        maps[images[:, 0, 0, 0] == 0.987] = 0.0
        return maps

    result = sg.measure_fass(Told(flat, explain), images, perturbations=[Brightness(0.9)])
    frame = result.to_frame().set_index("image")
    assert frame.loc[2, "status"] == "error"
    assert frame.loc[2, "reason"] == "original: ExplainerError: told: ValueError: no such thing"
    assert frame.loc[5, "status"] == "no signal"
    assert "the original's map constant" in frame.loc[5, "reason"]
    assert (frame.drop([2, 5])["status"] == "retained").all()
    assert frame["fass"].isna().sum() == 2
    assert adds_up(result)
    counted = result.summary
    assert (counted.retained, counted.no_signal, counted.errors) == (7, 1, 1)
    assert any("1 of 9 pairs: error (original: ExplainerError" in note for note in result.notes())


def test_what_the_user_must_put_right_is_said_before_anything_else():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 3)).eval()
    with pytest.raises(InputError, match="no layer for Grad-CAM could be found"):
        sg.measure_fass(sg.explainers.GradCam(network), photos(3), perturbations=[Brightness(0.99)])
    lime = sg.explainers.LimeImage(flat, num_samples=10, segmentation=lambda image: np.zeros((2, 2), int))
    with pytest.raises(InputError, match="the segmentation returned int64 of shape"):
        sg.measure_fass(lime, photos(3), perturbations="noise")
    table = sg.explainers.Lime(lambda X: X, background=np.zeros((5, 3)))
    with pytest.raises(InputError, match="is Lime, which explains the rows of tables, not images"):
        sg.measure_fass(table, photos(3), model=flat)


@pytest.mark.parametrize(
    ("method", "hint"),
    [
        ("smoothgrad", 'method="saliency" with noise_tunnel="smoothgrad"'),
        ("IG", "did you mean 'integrated-gradients'"),
        ("IntegratedGradients", "did you mean 'integrated-gradients'"),
        ("GradientShap", "did you mean 'gradient-shap'"),
    ],
)
def test_spellings_of_captums_methods(method, hint):
    with pytest.raises(InputError, match=hint):
        sg.explainers.Captum(small_network(), method=method)


def test_a_copy_that_cannot_be_explained_is_an_error_of_its_own():
    images = photos(4)
    dark = 0.5 * images[3].mean()

    def explain(images, seeds):
        return torch.where((images.mean(dim=(1, 2, 3)) < dark + 1e-3)[:, None, None, None], torch.nan, images)

    result = sg.measure_fass(Told(flat, explain), images, perturbations=[Brightness(0.45), Brightness(0.9)])
    frame = result.to_frame().set_index(["perturbation", "image"])
    bad = frame.loc["brightness x0.45"]
    assert (bad["status"] == "error").all()
    assert bad["reason"].str.contains("NaN").all()
    assert (frame.loc["brightness x0.9", "status"] == "retained").all()
    assert adds_up(result)


def test_an_image_on_which_the_model_fails_is_counted_under_every_perturbation():
    images = photos(6)
    images[1, :, 0, 0] = 0.5

    def model(images):
        outputs = bright(images)
        return torch.where((images[:, 0, 0, 0] == 0.5)[:, None], torch.nan, outputs)

    result = sg.measure_fass(Told(model), images, perturbations=[Brightness(0.99), Jpeg(90)])
    frame = result.to_frame()
    assert frame[frame["image"] == 1]["status"].tolist() == ["error", "error"]
    assert frame[frame["image"] == 1]["reason"].str.startswith("original: ModelError").all()
    assert frame[frame["image"] == 1]["target"].isna().all()
    assert len(frame) == 12
    assert adds_up(result)
    with pytest.raises(ModelError, match="failed on every image"):
        sg.measure_fass(Told(lambda images: bright(images) * torch.nan), images)


def test_a_perturbation_that_raises_on_one_image_is_an_error_of_that_pair():
    def darken(images):
        if bool((images[:, 0, 0, 0] > 0.999).any()):
            raise RuntimeError("too bright")
        return images * 0.9

    images = photos(4) * 0.9
    images[3, 0, 0, 0] = 1.0
    own = Perturbation.custom("darken", darken, family="photometric")
    result = sg.measure_fass(Told(flat), images, perturbations=own)
    assert [pair.status for pair in result.pairs] == ["retained"] * 3 + ["error"]
    assert result.pairs[3].reason == "RuntimeError: too bright"
    assert adds_up(result)


def test_random_perturbations_are_drawn_again_until_enough_pairs_are_retained():
    """A coin per draw: half of the images turn black, which changes their prediction."""

    def toss(images, seeds):
        return images * torch.tensor([1.0 if seed % 2 else 0.0 for seed in seeds])[:, None, None, None]

    coin = Perturbation.custom("coin", toss, family="photometric", random=True)
    images = photos(8, low=0.6)
    once = sg.measure_fass(Told(bright), images, perturbations=coin)
    kept = [row_seed(0, 0, ("perturbation", coin.label, i)) % 2 == 1 for i in range(8)]
    assert [pair.status == "retained" for pair in once.pairs] == kept
    assert 0 < sum(kept) < 8

    again = sg.measure_fass(Told(bright), images, perturbations=coin, redraw=8)
    expected, waiting, draw = [], list(range(8)), 0
    while waiting:
        found = {i: row_seed(0, draw, ("perturbation", coin.label, i)) % 2 == 1 for i in waiting}
        expected += [(i, draw, ok) for i, ok in found.items()]
        waiting, draw = [i for i, ok in found.items() if not ok], draw + 1
    assert [(pair.image, pair.draw, pair.status == "retained") for pair in again.pairs] == expected
    assert again.retention == pytest.approx(8 / len(expected))
    assert any(f"8 of {len(expected)} draws kept the prediction" in note for note in again.notes())
    assert adds_up(again)

    def broken(images, seeds):
        raise RuntimeError("no licence")

    methods = {"broken": Told(bright, broken), "told": Told(bright)}
    both = sg.measure_fass(methods, images, perturbations=[coin, Brightness(0.95)], redraw=8)
    rates = [note for note in both.notes() if "draws kept" in note]
    assert [note.split(";")[0] for note in rates] == [note.split(";")[0] for note in again.notes() if "draws" in note]
    assert any("no floor: no image could be explained" in note for note in both.notes())
    easy = sg.measure_fass(Told(flat), images, perturbations="noise", redraw=8)
    assert "noise σ 0.15: 8 of 8 draws kept the prediction (100 %)" in easy.notes()
    alone = sg.measure_fass(Told(flat), images[:1], perturbations="noise", redraw=3)
    assert "noise σ 0.15: all 3 pairs are of one image" in alone.notes()


def test_a_plain_object_with_explain_will_do_beside_a_model():
    class Plain:
        asked = ()

        def explain(self, X, *, seed, target=None):
            self.asked += ((type(X), X.shape, target),)
            return np.asarray(X) * 2

    images, plain = photos(3), Plain()
    result = sg.measure_fass(plain, images.numpy(), model=flat, perturbations=[Brightness(0.9)], references=0)
    assert set(plain.asked) == {(np.ndarray, (1, 3, 32, 32), 1)}
    assert result.retention == 1
    assert result.methods == ("Plain",)
    expected = compare_maps(images.numpy(), (images * np.float32(0.9)).numpy()).fass
    assert result.to_frame()["fass"].tolist() == pytest.approx(expected.data.tolist(), abs=1e-12)


def test_a_perturbation_that_draws_globally_gives_the_same_measurement_twice():
    own = Perturbation.custom("grain", lambda x: (x + 0.1 * torch.rand(x.shape)).clamp(0, 1), family="photometric")
    before = torch.random.get_rng_state()
    whole = sg.measure_fass(Told(flat), photos(3), perturbations=own, references=0).to_frame()
    alone = sg.measure_fass(Told(flat), photos(3)[1:2], ids=[1], perturbations=own, references=0).to_frame()
    assert whole["fass"][1] == alone["fass"][0]
    assert whole["fass"].nunique() == 3
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("value", "what"), [(None, "NoneType"), (1j, "complex numbers")])
def test_maps_that_are_no_real_numbers(value, what):
    explain = lambda image, seed: None if value is None else image[0] * value  # noqa: E731
    result = sg.measure_fass(sg.explainers.Custom(explain), photos(2), model=flat, perturbations="noise")
    assert f"returned {what}; expected real numbers" in result.pairs[0].reason


def test_an_alignment_that_is_no_perturbation():
    for alignment in ("rotation", Rotation):
        with pytest.raises(InputError, match="give the perturbation that made the images"):
            compare_maps(photos(1), photos(1), alignment=alignment)


def mean_of(images: torch.Tensor) -> torch.Tensor:
    return images.mean(dim=(1, 2, 3))


@pytest.mark.parametrize(
    ("model", "rule", "kept"),
    [
        # The means 0.6 and 0.76 become 0.75 and 0.95: nothing is clipped.
        (lambda x: 10 * mean_of(x), ("output", 1.7), [True, False]),
        (lambda x: 10 * mean_of(x), ("output", 2.0), [True, True]),
        (lambda x: 10 * mean_of(x), ("relative output", 0.26), [True, True]),
        (lambda x: 10 * mean_of(x), ("relative output", 0.24), [False, False]),
        (lambda x: mean_of(x) - 0.7, ("side", 0.0), [False, True]),
        (mean_of, ("side", 0.8), [True, False]),
        (mean_of, ("side", 0.5), [True, True]),
        (bright, "label", [True, True]),
        (lambda x: bright(x - 0.2), "label", [False, True]),
        # Probabilities already: they move by 0.15 and 0.19.
        (bright, ("probability", 0.17), [True, False]),
        # Logits: the logistic function goes from 0.917 to 0.953 and from 0.954 to 0.978.
        (lambda x: torch.stack([0 * mean_of(x), 4 * mean_of(x)], 1), ("probability", 0.03), [False, True]),
        (lambda x: torch.stack([0 * mean_of(x), 4 * mean_of(x)], 1), ("probability", 0.04), [True, True]),
    ],
)
def test_the_rules_of_invariance(model, rule, kept):
    pattern = 0.01 * (photos(2, 16) - 0.5)
    pattern -= pattern.mean(dim=(1, 2, 3), keepdim=True)
    images = pattern + torch.tensor([0.6, 0.76])[:, None, None, None]
    result = sg.measure_fass(Told(model), images, perturbations=[Brightness(1.25)], invariance=rule)
    assert [pair.status == "retained" for pair in result.pairs] == kept
    assert all(pair.reason for pair, held in zip(result.pairs, kept, strict=True) if not held)
    assert adds_up(result)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"invariance": "lable"}, "invariance='lable': give"),
        ({"invariance": ("probability", -0.1)}, "a tolerance is at least 0"),
        ({"invariance": ("side", 0.0)}, "this one has 3"),
        ({"invariance": ("output", 0.1)}, "say target=0 to 2"),
        ({"perturbations": "publishd"}, "did you mean 'published'"),
        ({"protocol": "align"}, "protocol='align'"),
        ({"protocol": "published", "top": 0.1}, "top has no effect"),
        ({"redraw": 0}, "redraw=0"),
        ({"references": -1}, "references=-1"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"ids": ["a", "a", "b"]}, "'a' twice"),
        ({"ids": ["a", ["b"], "c"]}, r"ids names \['b'\], a list: give texts or numbers"),
        ({"ids": ["a"]}, "ids has 1 names for 3 images"),
        ({"target": 3}, "3 outputs, numbered from 0"),
        ({"target": "cat"}, "give the number of an output"),
        ({"weights": [1, 1]}, "weights has 2 numbers"),
    ],
)
def test_options_that_cannot_be_meant(options, message):
    with pytest.raises(InputError, match=message):
        sg.measure_fass(Told(flat), photos(3), **options)


def test_images_and_explainers_that_cannot_be_used():
    for images, message in (
        (photos(2) * 255, "divide by 255"),
        ((photos(2) * 255).to(torch.uint8), "uint8"),
        (photos(2).masked_fill(photos(2) > 0.99, torch.nan), "NaN"),
        (photos(2, 2), "smaller than the SSIM window"),
        (photos(0), "images is empty"),
    ):
        with pytest.raises(InputError, match=message):
            sg.measure_fass(Told(flat), images, perturbations=[Brightness(0.9)])
    with pytest.raises(InputError, match="one output, so there is no arg-max"):
        sg.measure_fass(Told(lambda x: x.mean((1, 2, 3))), photos(2))
    with pytest.raises(InputError, match="has no model: pass model="):
        sg.measure_fass(Told(None), photos(2))
    with pytest.raises(InputError, match="'b' explains another network than a"):
        sg.measure_fass({"a": Told(flat), "b": Told(bright)}, photos(2))
    turn = Perturbation.custom("turn", lambda images: images.flip(2), family="geometric")
    with pytest.raises(InputError, match="has no inverse"):
        sg.measure_fass(Told(flat), photos(2), perturbations=turn)
    assert sg.measure_fass(Told(flat), photos(2), perturbations=turn, protocol="published").retention == 1


def test_float64_images_and_a_network_in_training_mode():
    network = small_network().train()
    result = sg.measure_fass(Gradient(network), photos(3).double(), perturbations="mild")
    assert network.training
    assert adds_up(result)
    assert any("training mode" in note for note in result.notes())
