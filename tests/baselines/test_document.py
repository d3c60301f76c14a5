"""How a baseline is written: what comes back, what a diff shows, what damage is called."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace

import numpy as np
import pytest
from records import FEATURES, of_fass, of_k, row

import stabgate as sg
from stabgate.baselines.document import Accepted, Baseline, from_text, to_text, unfit
from stabgate.gate_regression import judge_no_regression
from stabgate.measure.record import PairRecord, Record

ACCEPTED = Accepted("Ada <ada@example.org>", "größer \ud800 \u2028 und besser", "2026-01-02")


def text_of(record: Record) -> str:
    return to_text(Baseline("credit/shap", ACCEPTED, record))


@pytest.mark.parametrize("record", [of_k(), of_k(12), of_fass(), of_k(seed=2**40)])
def test_what_is_written_comes_back(record):
    text = text_of(record)
    text.encode()
    found = from_text(text, source="x.json")
    assert found == Baseline("credit/shap", ACCEPTED, record)
    assert to_text(found) == text
    assert from_text(text.replace("\n", "\r\n"), source="x.json") == found


def test_statistics_stand_there_for_the_reader_as_brute_force_has_them():
    k = np.repeat([1, 2, 3], [20, 30, 50])
    text = text_of(replace(of_k(1), rows=(row(0, 3, (20, 30, 50)),)))
    line = json.loads(next(line for line in text.splitlines() if '"row 0"' in line))
    assert line["mean"] == round(float(k.mean()), 6)
    # A half and its complement lie on opposite sides: the lowest k belongs to the highest, and so on inwards.
    assert line["variance"] == round(sum((a - b) ** 2 for a, b in zip(k, k[::-1], strict=True)) / 2 / 100, 6)
    assert line["halves"] == {"1": 20, "2": 30, "3": 50}
    assert [FEATURES[j] for j in line["leading"]] == ["tenure größe", "age"]
    assert '"value": 3.000000' in text


def test_a_diff_shows_the_rows_that_changed_and_nothing_else():
    before = of_k(30)
    rows = list(before.rows)
    rows[7] = replace(rows[7], k=1, halves=(70, 30))
    after = text_of(replace(before, rows=tuple(rows)))
    lines = difflib.ndiff(text_of(before).splitlines(), after.splitlines())
    changed = [line for line in lines if line.startswith(("+", "-"))]
    assert [("row" in line, "value" in line) for line in changed] == [(True, False)] * 2 + [(False, True)] * 2


def test_keys_and_rows_are_sorted_and_fifty_rows_are_small():
    text = text_of(of_k(50))
    plain = json.loads(text)
    assert list(plain) == sorted(plain)
    assert list(plain["record"]) == sorted(plain["record"])
    ids = [line["id"] for line in plain["record"]["rows"]]
    assert ids == sorted(ids)
    assert len(ids) == 50
    assert len(text.encode()) < 15_000


def test_a_run_that_is_compared_with_its_own_baseline_fell_by_exactly_nothing():
    draw = np.random.default_rng(0)
    scores = draw.random(80).round(6).tolist()
    pairs = [PairRecord(f"image {i // 2:02d}", "h", "ab"[i % 2], 0, "retained", s) for i, s in enumerate(scores)]
    record = of_fass(pairs=tuple(pairs))
    back = from_text(text_of(record), source="x").record
    assert back == record
    explainer = sg.explainers.Custom(
        lambda X, seed: np.array([3.0, 2.0, 1.0]) + np.random.default_rng(seed).normal(size=3)
    )
    result = sg.measure_k_stability(explainer, np.zeros((5, 3)), runs=12)
    again = from_text(text_of(Record.of(result)), source="x").record
    verdict = judge_no_regression(result, again, max_drop=0).verdict
    assert (verdict.outcome, verdict.estimate) == ("PASS", 0.0)


def edited(change) -> str:
    plain = json.loads(text_of(of_k()))
    change(plain)
    return json.dumps(plain)


def set_row(field, value):
    def change(plain):
        plain["record"]["rows"][1][field] = value

    return change


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged, not JSON"),
        ("[]", "the document: an object is needed"),
        ("{}", "not a baseline of schema 1 (found schema None)"),
        (edited(lambda p: p.update(schema=0)), "not a baseline of schema 1 (found schema 0)"),
        (edited(lambda p: p.update(schema=2)), "a baseline of schema 2; this stabgate reads 1: update stabgate"),
        ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> x\n", "holds a merge conflict"),
        (text_of(of_k())[:400], "damaged, not JSON"),
        (edited(lambda p: p.pop("name")), "name: a text is needed, found 'nothing'"),
        (edited(lambda p: p["accepted"].pop("why")), "accepted.why: a text is needed"),
        (edited(lambda p: p["record"].pop("rows")), "record.rows: a list is needed"),
        (
            edited(lambda p: p["record"].update(runs="20")),
            "record.runs: an integer of at least 1 is needed, found '20'",
        ),
        (edited(lambda p: p["record"].update(metric="SSIM")), "record.metric: k-stability or FASS is needed"),
        (
            edited(lambda p: p["record"].update(value=1.5)),
            "record.value: 2.000000, which follows from the other fields,",
        ),
        (edited(lambda p: p["record"]["rows"].clear()), "record.value: 0.000000, which follows"),
        (edited(set_row("k", 1)), "record.value: 1.666667, which follows"),
        (edited(set_row("k", 9)), "record.rows[1].k: an integer of at least 1 and at most 4 is needed, found 9"),
        (edited(set_row("k", True)), "record.rows[1].k: an integer"),
        (edited(set_row("mean", 1.9)), "record.rows[1].mean: 1.800000, which follows from the other fields,"),
        (edited(set_row("halves", {"1": 30, "2": 70})), "record.rows[1].mean: 1.700000, which follows"),
        (edited(set_row("halves", {"0": 30})), "record.rows[1].halves: an object of k and its count"),
        (edited(set_row("halves", {})), "record.rows[1].mean: 2.000000, which follows"),
        (edited(set_row("leading", [4])), "record.rows[1].leading: a list of positions among the 4 features"),
        (edited(set_row("id", "row 0")), "record.rows: rows that stand there once each"),
        (edited(set_row("note", "x")), "record.rows[1].note: one of the fields halves, hash, id, k"),
    ],
)
def test_damage_and_edits_are_named_with_file_and_field_and_the_way_forward(text, message):
    with pytest.raises(sg.InputError) as caught:
        from_text(text, source="credit/shap.json")
    assert str(caught.value).startswith(f"credit/shap.json: {message}")
    assert "pytest --stabgate-update" in str(caught.value) or "update stabgate" in str(caught.value)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (of_k(), ""),
        (of_fass(), ""),
        (of_k(0), "0 of 0 rows were not measured"),
        (
            replace(of_k(), rows=(*of_k().rows[:2], replace(of_k().rows[2], k=0, halves=(), reason="no licence"))),
            "1 of 3 rows were not measured (row row 2: no licence)",
        ),
        (replace(of_k(), rows=(replace(of_k().rows[0], halves=()),)), "measure at least 4"),
        (replace(of_fass(), pairs=of_fass().pairs[1:2]), "no pair has a score"),
        (
            replace(of_fass(), pairs=(*of_fass().pairs, replace(of_fass().pairs[3], status="error", draw=1))),
            "1 of 5 pairs have an error (the first: image dog, noise σ 0.1)",
        ),
    ],
)
def test_what_cannot_be_a_baseline(record, why):
    assert why in unfit(record)
    assert bool(unfit(record)) == bool(why)
