"""Perturbations by name, sweeps, and those that users bring."""

from __future__ import annotations

import pickle
import random
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest

import stabgate as sg
from stabgate.errors import InputError
from stabgate.perturbations import (
    KINDS,
    MILD,
    PUBLISHED,
    Brightness,
    GaussianNoise,
    Jpeg,
    Perturbation,
    Rotation,
    Translation,
    resolve,
    sweep,
)

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

IMAGES = torch.rand((2, 3, 16, 20), generator=torch.Generator().manual_seed(0))


def test_the_sets_of_the_definition():
    assert (Rotation(15), Translation(20), Brightness(1.5), GaussianNoise(0.15), Jpeg(40)) == PUBLISHED
    assert (Rotation(5), Translation(10), Brightness(1.1), GaussianNoise(0.01), Jpeg(85)) == MILD
    families = {p.name: p.family for p in PUBLISHED}
    assert families == {
        "rotation": "geometric",
        "translation": "geometric",
        "brightness": "photometric",
        "noise": "photometric",
        "jpeg": "compression",
    }
    assert [p.name for p in PUBLISHED if p.random] == ["noise"]
    assert all(m.strength < p.strength for m, p in zip(MILD, PUBLISHED, strict=True))
    assert list(KINDS) == list(families)


def test_the_room_is_found_from_the_package():
    assert sg.perturbations.Rotation(15) == Rotation(15)


def test_the_protocol_decides_the_interpolation_that_is_left_open():
    assert resolve("published")[0] == Rotation(15, "bilinear")
    assert resolve("published", protocol="published")[0] == Rotation(15, "nearest")
    assert resolve(Rotation(3, "bilinear"), protocol="published") == (Rotation(3, "bilinear"),)
    assert resolve("mild", protocol="published")[1:] == MILD[1:]


def test_several_at_once():
    assert resolve(["rotation", Jpeg(10)]) == (Rotation(15, "bilinear"), Jpeg(10))
    assert resolve(p for p in sweep("jpeg", (10, 20))) == (Jpeg(10), Jpeg(20))
    assert len(resolve(["published", "mild"])) == 10


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("publishd", "did you mean 'published'"),
        ("Rotate", "did you mean 'rotation'"),
        (["rotation", "nois"], "did you mean 'noise'"),
        ("xyz", "'xyz' is unknown; give one of 'published', 'mild', a kind"),
        ([], "empty"),
        (None, "perturbations=None"),
        ([3], "3 is not a perturbation"),
        ([Rotation], "is a class: create one"),
        (["rotation", "published"], "'rotation 15°' twice"),
        ([Rotation(15), Rotation(15.0)], "twice"),
    ],
)
def test_names_that_mean_nothing(given, message):
    with pytest.raises(InputError, match=message):
        resolve(given)


def test_unknown_protocol():
    with pytest.raises(InputError, match='choose "aligned" or "published"'):
        resolve("mild", protocol="publish")


def test_sweeps():
    assert sweep("noise", (0.01, 0.1)) == (GaussianNoise(0.01), GaussianNoise(0.1))
    assert sweep(Rotation, iter([2, 5])) == (Rotation(2), Rotation(5))
    for given, message in (
        (("rotatoin", (1,)), "did you mean 'rotation'"),
        ((3, (1,)), "give a name"),
        (("rotation", 5), r"give several, as in sweep\('rotation', \[5\]\)"),
        (("jpeg", ()), "severities is empty"),
        (("jpeg", (40, 40)), r"\[40\] more than once"),
        (("jpeg", (40, 0)), "whole number from 1 to 95"),
    ):
        with pytest.raises(InputError, match=message):
            sweep(*given)


@pytest.mark.parametrize(
    ("make", "bad"),
    [
        (Rotation, (0, 181, float("nan"), "15", True, None)),
        (Translation, (0, 224, -224, float("inf"))),
        (Brightness, (0, 1, -1, 101)),
        (GaussianNoise, (0, -0.1, 11)),
        (Jpeg, (0, 96, 40.5, True, "40", float("nan"))),
    ],
)
def test_severities_that_are_refused(make, bad):
    for severity in bad:
        with pytest.raises(InputError, match=f"{make.name}: severity="):
            make(severity)


def test_unknown_interpolation():
    with pytest.raises(InputError, match='"bilinear" or "nearest"'):
        Rotation(15, "cubic")


def test_perturbations_are_values():
    for p in PUBLISHED:
        assert pickle.loads(pickle.dumps(p)) == p
        assert p in {p}
        with pytest.raises(FrozenInstanceError):
            p.severity = 1
    assert [p.label for p in PUBLISHED] == [
        "rotation 15°",
        "translation 20 px",
        "brightness x1.5",
        "noise σ 0.15",
        "jpeg q 40",
    ]


# The two ways of the docstring of Perturbation, to the letter.


@dataclass(frozen=True)
class Gamma(Perturbation):
    severity: float = 2.0
    name, family = "gamma", "photometric"

    def transform(self, images):
        return images**self.severity


@dataclass(frozen=True)
class Salt(Perturbation):
    severity: float = 0.1
    name, family, random = "salt", "photometric", True

    def draw(self, images, seeds):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        drawn = torch.stack([torch.rand(images.shape[1:], generator=g) for g in generators])
        return images.masked_fill(drawn < self.severity, 1.0)


def test_own_class():
    assert torch.equal(Gamma().apply(IMAGES), IMAGES**2)
    assert resolve([Gamma(3.0), "jpeg"])[0].label == "gamma 3"
    assert sweep(Gamma, (1.5, 2.0)) == (Gamma(1.5), Gamma(2.0))
    assert Gamma().invert(IMAGES)[1].all()


def test_own_random_class():
    with pytest.raises(InputError, match=r"salt 0\.1 is random"):
        Salt().apply(IMAGES)
    assert torch.equal(Salt().apply(IMAGES, seeds=[1, 2])[1], Salt().apply(IMAGES[1:], seeds=[2])[0])


def test_own_kinds_that_draw_from_global_generators_leave_them_alone_and_repeat_themselves():
    def shake(images):
        factor = 0.5 + 0.5 * random.random() * float(np.random.rand())
        return images * factor * torch.rand(images.shape)

    own = Perturbation.custom("shake", shake, family="photometric")
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    first = own.apply(IMAGES, seeds=[1, 2])
    assert torch.equal(first[1], own.apply(IMAGES[1:], seeds=[2])[0])
    assert not torch.equal(first[0], own.apply(IMAGES[:1], seeds=[3])[0])
    assert torch.equal(own.apply(IMAGES), own.apply(IMAGES))
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


def test_own_function():
    negative = Perturbation.custom("negative", lambda images: 1 - images, family="photometric")
    assert torch.equal(negative.apply(IMAGES), 1 - IMAGES)
    mirror = Perturbation.custom(
        "mirror",
        lambda images: images.flip(3),
        family="geometric",
        inverse=lambda maps: maps.flip(3),
        labels=lambda labels: labels.flip(-1),
    )
    back, valid = mirror.invert(mirror.apply(IMAGES))
    assert torch.equal(back, IMAGES)
    assert valid.all()
    assert mirror.warp_labels(torch.tensor([[1, 2]])).tolist() == [[2, 1]]
    random = Perturbation.custom(
        "shift", lambda images, seeds: images * 0.5 + 0.01 * seeds[0], family="photometric", random=True
    )
    assert torch.equal(random.apply(IMAGES, seeds=[2, 3])[0], IMAGES[0] * 0.5 + 0.02)
    masked = Perturbation.custom("m", lambda x: x, family="geometric", inverse=lambda maps: (maps, maps[0, 0] > 0.5))
    assert torch.equal(masked.invert(IMAGES)[1], IMAGES[0, 0] > 0.5)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda images: images * 2, "mine 1 returned what is not images in .0, 1.: images reach from"),
        (lambda images: images * float("nan"), "NaN"),
        (
            lambda images: images[:, :, 1:],
            r"returned \(1, 3, 15, 20\); it must return a tensor \(1, 3, 16, 20\)",
        ),
        (lambda images: None, "returned NoneType"),
        (lambda images: images.to(torch.float64), None),  # another type is converted back
    ],
)
def test_what_a_function_returns_is_checked(function, message):
    mine = Perturbation.custom("mine", function, family="photometric")
    if message is None:
        assert mine.apply(IMAGES).dtype == IMAGES.dtype
    else:
        with pytest.raises(InputError, match=message):
            mine.apply(IMAGES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": " "}, "give the perturbation a name"),
        ({"family": "colour"}, "choose one of geometric, photometric, compression"),
        ({"function": 3}, "function=3 cannot be called"),
        ({"inverse": lambda maps: maps}, "moves no pixel"),
    ],
)
def test_custom_arguments(arguments, message):
    given = {"name": "mine", "function": lambda images: images, "family": "photometric", **arguments}
    with pytest.raises(InputError, match=message):
        Perturbation.custom(given.pop("name"), given.pop("function"), **given)


def test_geometric_without_inverse_or_labels_says_so():
    warp = Perturbation.custom("warp", lambda images: images, family="geometric")
    with pytest.raises(InputError, match="has no inverse"):
        warp.invert(IMAGES)
    with pytest.raises(InputError, match="how labels move"):
        warp.warp_labels(torch.zeros((4, 4), dtype=torch.int64))


def test_a_class_without_family_is_refused():
    class Nameless(Perturbation):
        severity = 1.0
        name = "nameless"

    with pytest.raises(InputError, match="Nameless has no family"):
        resolve(Nameless())
