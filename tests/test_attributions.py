"""Attributions: labels that fit, files that come back the same, damage that is named."""

from __future__ import annotations

import numpy as np
import pytest

import stabgate as sg
from stabgate.cost import Cost


def attributions(**change):
    values = np.random.default_rng(0).normal(size=(4, 3, 2))
    values[:, 1] = np.nan
    fields = {
        "values": values,
        "features": ("a", "b"),
        "instances": (7, "x", ("u", 2)),
        "seeds": np.arange(12, dtype=np.uint32).reshape(4, 3),
        "targets": ("yes", "no", 3),
        "failures": {"x": "run 0: no"},
        "provenance": {"explainer": "mine", "settings": {"n": 3}},
        "cost": Cost(1, 2, 3, 4.5, 0.25),
    }
    return sg.Attributions(**(fields | change))


def test_a_file_comes_back_the_same(tmp_path):
    before = attributions()
    before.save(tmp_path / "a.npz")
    after = sg.Attributions.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(after.values, before.values)
    np.testing.assert_array_equal(after.seeds, before.seeds)
    for name in ("features", "instances", "targets", "failures", "provenance", "cost"):
        assert getattr(after, name) == getattr(before, name)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:  # raises if anything in it were a pickle
        assert {archive[name].dtype.kind for name in archive.files} == {"f", "u"}


def test_a_save_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.npz"
    attributions().save(path)
    content = path.read_bytes()
    with pytest.raises(TypeError):
        attributions(provenance={"x": object()}).save(path)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 nonsense", None])
def test_a_damaged_or_missing_file_is_named(tmp_path, damage):
    path = tmp_path / "a.npz"
    if damage is not None:
        path.write_bytes(damage)
    with pytest.raises(sg.InputError, match=r"a\.npz"):
        sg.Attributions.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones((4, 3))}, "shape"),
        ({"features": ("a",)}, "2 features and 1 names"),
        ({"features": ("a", "a")}, "unique"),
        ({"instances": (1, 2)}, "3 instances and 2 names"),
        ({"seeds": np.zeros((3, 4), np.uint32)}, "seeds"),
        ({"failures": {"nobody": "?"}}, "'nobody'"),
        ({"failures": {}}, r"feature 'a' is not finite in run 0 of row 'x'"),
    ],
)
def test_labels_that_do_not_fit_are_refused(change, message):
    with pytest.raises(sg.InputError, match=message):
        attributions(**change)


def test_thinning_takes_the_first_runs():
    thin = attributions().thin(2)
    assert thin.values.shape == (2, 3, 2)
    assert thin.seeds.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(sg.InputError, match="runs=9"):
        attributions().thin(9)
