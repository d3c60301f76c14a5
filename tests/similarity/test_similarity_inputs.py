"""What compare_maps reads, what it refuses, and that the message says what to do."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from fass_by_hand import pair_of_maps

from stabgate.errors import InputError, MissingDependencyError
from stabgate.perturbations import Perturbation, Rotation, Translation
from stabgate.similarity import compare_maps

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

A, B = pair_of_maps("random", (3, 16, 16))


def test_three_dimensions_are_one_map_with_channels():
    assert isinstance(compare_maps(A, B).fass, float)
    assert compare_maps(A[0], B[0]).fass == compare_maps(A[:1], B[:1]).fass
    assert compare_maps(A[:, None], B[:, None]).fass.shape == (3,)


@pytest.mark.parametrize("shape", [(16, 16), (1, 16, 16), (3, 1, 16, 16)])
def test_masks_of_every_shape(shape):
    batch = A[:, None], B[:, None]
    mask = np.ones((3, 1, 16, 16), dtype=bool)
    mask[..., 0] = False
    expected = compare_maps(*batch, valid=mask).fass
    given = np.broadcast_to(mask[0, 0], shape) if shape != (1, 16, 16) else mask[:, 0]
    assert compare_maps(*batch, valid=given).fass.tolist() == expected.tolist()
    assert compare_maps(*batch, valid=torch.from_numpy(mask)).fass.tolist() == expected.tolist()


def test_alignment_and_mask_both_count():
    mask = np.ones((16, 16), dtype=bool)
    mask[0] = False
    moved = Translation(28)  # 2 of 16 pixels
    assert compare_maps(A, B, alignment=moved, valid=mask).pixels.tolist() == [15 * 14]


def test_alignment_is_that_of_the_perturbation():
    back, visible = Rotation(20).invert(torch.from_numpy(B)[None])
    expected = compare_maps(A, back[0], valid=visible)
    assert compare_maps(A, B, alignment=Rotation(20)).fass == pytest.approx(expected.fass, abs=1e-12)


class WrongInverse:
    def __init__(self, maps, mask):
        self.maps, self.mask = maps, mask

    def invert(self, maps):
        return self.maps(maps), self.mask(maps)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": A[0, 0], "b": B[0, 0]}, r"shape \(16,\); give one map"),
        ({"a": A[None, None], "b": B[None, None]}, "give one map"),
        ({"a": A[:, :15]}, r"differ in shape: \(3, 15, 16\) and \(3, 16, 16\)"),
        ({"a": A[None]}, "differ in shape"),
        ({"a": A[:, :, :0], "b": B[:, :, :0]}, "length 0"),
        ({"a": A.astype(complex)}, "a: values are complex128"),
        ({"b": B > 0}, "b: values are torch.bool"),
        ({"a": np.array([["x"]])}, "a: values are"),
        ({"a": [[1.0], [1.0, 2.0]]}, "not a rectangular array"),
        ({"a": np.ma.masked_array(A)}, "masked array; give the values"),
        ({"protocol": "algined"}, 'choose "aligned" or "published"'),
        ({"reduction": "sum"}, "'signed-sum', 'abs-sum', 'positive'"),
        ({"top": 0.0}, "above 0 and at most 1"),
        ({"top": 5}, "above 0 and at most 1"),
        ({"top": float("nan")}, "above 0 and at most 1"),
        ({"weights": (1, 1)}, "2 numbers"),
        ({"weights": (1, -1, 1)}, "at least 0"),
        ({"weights": (0, 0, 0)}, "not all of them 0"),
        ({"weights": {"ssim": 1, "rho": 1, "jaccard": 1}}, "give exactly ssim, spearman, jaccard"),
        ({"valid": np.ones((16, 16))}, "valid holds torch.float64; give booleans"),
        ({"valid": np.ones((3, 16, 16), dtype=bool)}, r"valid has shape \(3, 16, 16\)"),
        ({"protocol": "published", "valid": np.ones((16, 16), dtype=bool)}, "valid has no effect"),
        ({"protocol": "published", "alignment": Rotation(5)}, "alignment has no effect"),
        ({"protocol": "published", "reduction": "positive", "top": 0.1}, "reduction, top has no effect"),
        ({"a": A[:, :2], "b": B[:, :2]}, "2 x 16 pixels is smaller than the SSIM window"),
        (
            {"a": A[:1, :10, :10], "b": B[:1, :10, :10], "protocol": "published"},
            "1 x 10 x 10 = 100: the overlap",
        ),
        ({"alignment": WrongInverse(lambda m: m[:, :, 1:], lambda m: m[0, 0] > 0)}, "must keep the shape"),
        ({"alignment": WrongInverse(lambda m: m, lambda m: m[0, 0])}, "not booleans"),
        (
            {"alignment": Perturbation.custom("warp", lambda x: x, family="geometric")},
            "geometric but has no inverse",
        ),
    ],
)
def test_refused_with_a_reason(arguments, message):
    given = {"a": A, "b": B, **arguments}
    with pytest.raises(InputError, match=message):
        compare_maps(given.pop("a"), given.pop("b"), **given)


def test_published_maps_may_be_smaller_than_the_window():
    # The padding counts, so a window of 11 exists on a map of 7 x 7; only the top 100 need elements.
    assert compare_maps(A[:, :7, :7], B[:, :7, :7], protocol="published").measured


def test_without_torch_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "stabgate\[torch\]"'):
        compare_maps(A, B)


def test_importing_the_rooms_does_not_import_torch():
    code = (
        "import sys, stabgate.similarity, stabgate.perturbations as p; p.resolve('published'); "
        "heavy = {'torch', 'kornia', 'PIL', 'captum', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
