"""What becomes parameters, metrics and tags: names and lengths that MLflow takes, no NaN, a digest of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tracking_cases import session_of

import stabgate as sg
from stabgate.gate import judge_min_k_stability
from stabgate.measure.record import Record
from stabgate.report.session import GateReport
from stabgate.tracking.described import described_gate, described_session, finite, flat, safe_name, worst
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
