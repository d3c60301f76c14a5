"""What becomes parameters, metrics and tags: names and lengths that MLflow takes, no NaN, a digest; and pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tracking_cases import session_of

import stabgate as sg
from stabgate.gate import judge_min_k_stability
from stabgate.gate_fass import judge_min_fass
from stabgate.measure.record import Record
from stabgate.report.evidence import save_evidence
from stabgate.report.session import GateReport
from stabgate.tracking.described import described_gate, described_session, finite, flat, safe_name, worst
from stabgate.tracking.pictures import draw
from stabgate.verdict.verdicts import Outcome

X = np.zeros((4, 3))


def gate(explain, **about):
    judged = judge_min_k_stability(sg.explainers.Custom(explain), X, k=2, runs=6)
    record = Record.of(judged.result).to_json()
    return GateReport(
        "a", "k-stability", "k >= 2", "test_a.py::t", judged.verdict, judged.message, record=record, **about
    )


def steady(X, seed):
    return np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)


def described(one):
    return described_gate(one, session_of(one), gate_id="s-0", session_id="s")


def test_nothing_that_is_not_a_number_is_a_metric():
    assert finite({"a": 1, "b": float("nan"), "c": float("inf"), "d": None}) == ({"a": 1.0}, ["b", "c"])

    def failing(X, seed):
        raise ValueError("no")

    lost = described(gate(failing))
    assert lost.tags["stabgate.verdict"] == "not-measured"
    assert "share" not in lost.metrics
    assert (lost.metrics["instances"], lost.metrics["not_measured"]) == (4.0, 4.0)
    nothing = GateReport("a", "k-stability", "k >= 2", "test_a.py::t", None, "InputError: no")
    assert described(nothing).metrics == {}
    assert described(nothing).tags["stabgate.verdict"] == "not-measured"
    assert described(nothing).dataset == {}


def test_the_digest_is_of_the_rows_and_not_of_what_explained_them():
    one, other = described(gate(steady)), described(gate(lambda X, seed: np.array([1.0, 2.0, 3.0])))
    assert one.dataset["digest"] == other.dataset["digest"]
    moved = gate(steady)
    rows = [{**row, "hash": f"x{row['hash']}"} for row in moved.record["rows"]]
    assert described(replace(moved, record={**moved.record, "rows": rows})).dataset["digest"] != one.dataset["digest"]


@pytest.mark.parametrize(
    "name", ["a*b", "a?b", "ü", "../x", "a//b", "/a", "x" * 400, "", "<script>", "a\nb", "a:b", "..x", "."]
)
def test_names_that_mlflow_takes(name):
    validation = pytest.importorskip("mlflow.utils.validation")
    validation._validate_tag_name(f"stabgate.{safe_name(name)}.verdict")
    validation._validate_param_name(safe_name(name))
    assert safe_name(name) != safe_name(name + "*")
    assert safe_name(f"{name}#") != safe_name(f"{name}?")


def test_good_names_and_nested_settings_stay():
    assert safe_name("credit/lime v1.2_a-b") == "credit/lime v1.2_a-b"
    assert flat({"a": {"b": 1, "c": [1, 2]}, "d": None, "e": "x"}) == {"a.b": "1", "a.c": "[1, 2]", "e": "x"}
    assert len(flat({"a": "x" * 10_000})["a"]) == 6000


def test_long_messages_are_cut_and_the_session_counts():
    one = replace(gate(steady), message="x" * 20_000)
    assert len(described(one).tags["stabgate.reason"]) == 5000
    found = described_session(session_of(one, replace(one, verdict=None)), session_id="s")
    assert found.tags["stabgate.verdict"] == "not-measured"
    assert (found.metrics["pass"], found.metrics["not_measured"], found.metrics["gates"]) == (1.0, 1.0, 2.0)
    assert worst([Outcome.PASS, Outcome.INCONCLUSIVE]) == "inconclusive"
    assert worst([]) == "not-measured"


def test_the_worst_pairs_of_maps_are_drawn(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("captum")
    picture = pytest.importorskip("matplotlib.figure").Figure
    image = pytest.importorskip("PIL.Image")
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1024, 3)]
    explainer = sg.explainers.Captum(torch.nn.Sequential(*layers), method="saliency")
    images = np.random.default_rng(0).random((4, 3, 16, 16))
    judged = judge_min_fass(explainer, images, score=0.1, perturbations=["rotation", "noise", "brightness", "jpeg"])
    evidence = Path(save_evidence(GateReport("a", "FASS", "", "t", None), judged.result, str(tmp_path)).evidence)
    saved, real = [], picture.savefig
    monkeypatch.setattr(picture, "savefig", lambda self, *a, **o: (saved.append(self), real(self, *a, **o))[1])
    draw(evidence)
    draw(evidence)
    [found] = saved  # once: what is there is not drawn again
    width, height = image.open(evidence / "maps.png").size
    assert 800 < width < 1600
    assert 1200 < height < 2400

    worst = sorted(judged.result.examples, key=lambda one: one.fass)[:6]
    assert len(judged.result.examples) > len(worst) == len(found.subfigs) == 6
    for row, one in zip(found.subfigs, worst, strict=True):
        assert row.get_suptitle() == f"image {one.image}, {one.perturbation}: FASS {one.fass:.3f}"
        original, perturbed, before, after, difference = (axes.images[0] for axes in row.axes[:5])
        np.testing.assert_array_equal(original.get_array(), np.round(255 * images[one.image]).transpose(1, 2, 0))
        np.testing.assert_array_equal(perturbed.get_array(), one.perturbed)
        np.testing.assert_array_equal(before.get_array(), one.before)
        np.testing.assert_array_equal(np.ma.filled(after.get_array(), np.nan), one.after)
        np.testing.assert_allclose(
            np.ma.filled(difference.get_array(), np.nan), one.after.astype(float) - one.before, atol=1e-12
        )
        assert before.get_clim() == after.get_clim()
        low, high = difference.get_clim()
        assert low == -high
    assert any(np.isnan(one.after).any() for one in worst)
