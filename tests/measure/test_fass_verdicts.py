"""From results to verdicts: what passes, what fails, and what was not measured."""

from __future__ import annotations

import re

import pytest
import torch
from fass_cases import Told, bright, flat, noise, photos

import stabgate as sg
from stabgate.errors import InputError, StabilityError
from stabgate.perturbations import Brightness, GaussianNoise, Perturbation, Rotation


def failure(*arguments, **options) -> StabilityError:
    with pytest.raises(StabilityError) as caught:
        sg.assert_min_fass(*arguments, **options)
    return caught.value


def test_ten_lines_pass():
    explainer = Told(flat)
    verdict = sg.assert_min_fass(explainer, photos(6), score=0.3, perturbations="mild")
    assert verdict.passed
    assert verdict.n == verdict.measured == 30
    assert verdict.interval[0] < verdict.estimate < verdict.interval[1]
    assert str(verdict.requirement) == "FASS >= 0.3"
    assert dict(verdict.facts)["explainer"] == "told"


def test_a_failure_names_images_perturbations_components_and_the_references():
    result = sg.measure_fass(Told(flat), photos(6), ids=[f"photo {i}" for i in range(6)])
    error = failure(result, score=0.95, geometric=0.9, name="photos")
    assert error.verdict.outcome == "FAIL"
    lines = str(error).splitlines()
    assert lines[0].startswith(
        f"FAIL: photos: required FASS >= 0.95, geometric >= 0.9, measured {result.score:.3f} (95 %"
    )
    assert lines[0].endswith("over 30 of 30 pairs [aligned, told on flat]")
    assert re.match(r"  FASS 0\.\d{3} is below 0\.95", lines[1])
    assert re.match(r"  geometric 0\.\d{3} is below 0\.9", lines[2])
    assert f"floor (another image's map) {result.floor:.3f}, re-seed (same image, another seed) 1.000" in lines[3]
    worst = min(result.by_perturbation(), key=lambda s: s.fass)
    assert lines[4].startswith(f"  {worst.name}: FASS {worst.fass:.3f} over 6 of 6 pairs, ")
    pair = result.worst(1)[0]
    shown = next(line for line in lines if "image 'photo" in line)
    assert shown.startswith(f"  image {pair.image!r}, {pair.perturbation}: FASS {pair.fass:.3f}, ")
    assert re.search(r"(SSIM|rank correlation|top-k overlap) fell from 1\.000 to -?0\.\d{3}", shown)
    assert "this is about flat explained by told with" in lines[-2]
    assert '"layer": "the last"' in lines[-2]
    assert lines[-1].startswith("  replay: measure_fass(")


def test_a_family_can_fail_alone():
    result = sg.measure_fass(Told(flat), photos(6), perturbations=[Rotation(15), Brightness(0.9)])
    by_family = {s.name: s.fass for s in result.by_family()}
    assert by_family["geometric"] < 0.7 < 0.9 < by_family["photometric"]
    assert sg.assert_min_fass(result, score=0.5, photometric=0.9).passed
    error = failure(result, score=0.5, geometric=0.7)
    assert error.verdict.outcome == "FAIL"
    assert error.verdict.reasons[0].startswith("geometric 0.")
    with pytest.raises(InputError, match="no compression perturbation was measured"):
        sg.assert_min_fass(result, score=0.5, compression=0.4)


def test_a_score_can_be_asked_to_stand_above_its_floor():
    result = sg.measure_fass(Told(flat), photos(6), perturbations=[Rotation(15)])
    ends = sg.assert_min_fass(result, score=0.1).interval
    low, score, high = ((s - result.floor) / (1 - result.floor) for s in (ends[0], result.score, ends[1]))
    assert sg.assert_min_fass(result, score=0.1, above_floor=low - 0.001).passed
    for above_floor, outcome in ((low + 0.001, "INCONCLUSIVE"), (score, "INCONCLUSIVE"), (high + 0.001, "FAIL")):
        error = failure(result, score=0.1, above_floor=above_floor)
        assert error.verdict.outcome == outcome
        assert "above the floor of" in error.verdict.reasons[0]
    alone = sg.measure_fass(Told(flat), photos(1), perturbations=[Brightness(0.9)])
    error = failure(alone, score=0.1, above_floor=0.1, min_pairs=1)
    assert error.verdict.outcome == "NOT MEASURED"
    assert "no floor to stand above" in str(error)


def test_too_little_retention_is_not_measured_and_names_the_severity_that_would_do():
    # Means from 0.405 to 0.489: a factor of 1.25 takes them all above one half.
    images = photos(10, 16) * 0.02
    images += torch.linspace(0.405, 0.489, 10)[:, None, None, None] - images.mean((1, 2, 3), keepdim=True)
    result = sg.measure_fass(Told(bright), images, perturbations=[Brightness(1.25), Brightness(0.9)])
    error = failure(result, score=0.1)
    assert error.verdict.outcome == "NOT MEASURED"
    factors = [1.25 - 0.01 * step for step in range(1, 25)]
    factors = [float(f"{factor:.3g}") for factor in factors]
    kept = {f: int(((images * f).clamp(0, 1).mean((1, 2, 3)) <= 0.5).sum()) for f in factors}
    enough = next(f for f in factors if kept[f] >= 5)
    reason = error.verdict.reasons[0]
    assert (
        "brightness x1.25: 0 of 10 pairs retained (0 %); 5 pairs and 10 % are needed (10 prediction changed)" in reason
    )
    assert reason.endswith(f"brightness x{enough:g} would keep {kept[enough]} of 10")
    # Severities that were measured anyway are not asked for again.
    seen = []
    swept = sg.measure_fass(
        Told(lambda x: seen.append(len(x)) or bright(x)), images, perturbations=[Brightness(1.25), Brightness(enough)]
    )
    tries = swept.tries("brightness x1.25", min_retention=0.1, min_pairs=kept[enough])
    assert tries[-1].perturbation.severity <= enough
    assert any(t.perturbation == Brightness(enough) and t.kept == kept[enough] for t in tries)
    assert result.score is not None  # the other perturbation was measured, and does not save the gate


def test_advice_where_no_severity_would_do():
    fragile = lambda x: torch.stack([(x - photos(6)[: len(x)]).abs().sum((1, 2, 3)), 1e-9 * x.sum((1, 2, 3))], 1)  # noqa: E731
    error = failure(Told(fragile), photos(6), score=0.1, perturbations="brightness")
    assert "; no prediction holds even at brightness x1.05" in error.verdict.reasons[0]
    darken = Perturbation.custom("darken", lambda images: images * 0.1, family="photometric")
    error = failure(Told(bright), photos(6, low=0.6), score=0.1, perturbations=darken)
    assert "choose a milder one" in error.verdict.reasons[0]


def test_the_replay_has_every_option_that_was_not_left_alone():
    result = sg.measure_fass(
        Told(flat),
        photos(3),
        perturbations="noise",
        target=torch.tensor(1),
        invariance=("probability", 0.5),
        weights={"ssim": 1, "spearman": 2, "jaccard": 1},
        reduction="abs-sum",
        top=0.1,
        redraw=4,
        references=2,
    )
    last = str(failure(result, score=1.0)).splitlines()[-1]
    assert "protocol='aligned', seed=0, target=1, invariance=['probability', 0.5], weights={'ssim': 1" in last
    assert "reduction='abs-sum', top=0.1, redraw=4, references=2) with noise" in last
    again = sg.measure_fass(Told(flat), photos(3), perturbations="noise", **result.provenance["options"])
    assert again.score == result.score


def test_too_few_images_are_said_to_be_too_few():
    error = failure(Told(flat), photos(3), score=0.1, perturbations="mild")
    assert error.verdict.outcome == "NOT MEASURED"
    assert "rotation 5°: 3 of 3 pairs retained (100 %); 5 pairs and 10 % are needed; give at least 5 images" in str(
        error
    )
    assert sg.assert_min_fass(Told(flat), photos(3), score=0.1, perturbations="mild", min_pairs=3).passed


def test_zero_maps_are_not_measured_and_never_perfect():
    error = failure(Told(flat, lambda images, seeds: 0 * images), photos(6), score=0.1, perturbations="mild")
    assert error.verdict.outcome == "NOT MEASURED"
    assert error.verdict.estimate is None
    assert "measured nothing over 0 of 30 pairs" in str(error)
    assert "(6 no signal)" in str(error)
    assert "would keep" not in str(error)


def test_errors_that_could_change_the_answer_make_it_not_measured():
    def explain(images, seeds):
        if bool((images[:, 0, 0, 0] == 0).any()):
            raise ValueError("no such thing")
        return images

    images = photos(10).clamp(min=0.01)
    images[:3, :, 0, 0] = 0.0
    result = sg.measure_fass(Told(flat, explain), images, perturbations=[Brightness(0.9)])
    score = result.score
    worst, best = 0.7 * score, 0.7 * score + 0.3
    assert result.summary.errors == 3
    assert sg.assert_min_fass(result, score=worst - 0.01).passed
    for required, outcome in ((worst + 0.01, "NOT MEASURED"), (min(best, 1) - 0.0001, "NOT MEASURED")):
        error = failure(result, score=required)
        assert error.verdict.outcome == outcome
        assert "pairs that have no score (3 with an error) could bring the mean" in str(error)
    assert "image 0, brightness x0.9: error: original: ExplainerError: told: ValueError: no such thing" in str(error)


def test_maps_of_pure_noise_do_not_pass_on_a_shared_seed():
    error = failure(Told(flat, noise), photos(8), score=0.5, perturbations=[Brightness(0.9), GaussianNoise(0.1)])
    assert error.verdict.estimate == 1.0
    assert error.verdict.outcome == "NOT MEASURED"
    assert "the maps are sampling noise" in str(error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": 0}, "score=0; it must be above 0"),
        ({"score": 1.5}, "score=1.5"),
        ({"score": True}, "score=True"),
        ({"score": 0.5, "geometric": 2}, "geometric=2"),
        ({"score": 0.5, "above_floor": -1}, "above_floor=-1"),
        ({"score": 0.5, "min_retention": 1.1}, "min_retention=1.1"),
        ({"score": 0.5, "min_pairs": 0}, "min_pairs=0"),
        ({"score": 0.5, "perturbations": "mild"}, "perturbations cannot be given with a result"),
    ],
)
def test_requirements_that_cannot_be_meant(options, message):
    result = sg.measure_fass(Told(flat), photos(2), perturbations="mild", references=0)
    with pytest.raises(InputError, match=message):
        sg.assert_min_fass(result, **options)


def test_several_methods_are_several_claims():
    methods = {"a": Told(flat), "b": Told(flat)}
    with pytest.raises(InputError, match="a claim of stability is about one method"):
        sg.assert_min_fass(methods, photos(6), score=0.1)
    result = sg.measure_fass({"a": Told(flat), "b": Told(flat, noise)}, photos(6), perturbations="mild")
    with pytest.raises(InputError, match=r"assert each, as in assert_min_fass\(result\['a'\], score=0.1\)"):
        sg.assert_min_fass(result, score=0.1)
    assert sg.assert_min_fass(result["a"], score=0.1).passed
    with pytest.raises(InputError, match="images is missing"):
        sg.assert_min_fass(Told(flat), score=0.1)
