"""The JSON document: it comes back as it was, says what it cannot read, and its page says what is in it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import HOSTILE, drop_gate, error_gate, fass_gate, k_gate, session

import stabgate as sg
from stabgate.report.session import GateReport, SessionReport

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXTS = st.text(max_size=40) | st.sampled_from(HOSTILE)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=60)
@given(
    TEXTS, TEXTS, NUMBERS, st.none() | st.tuples(NUMBERS, NUMBERS), st.integers(0, 10**12), st.lists(TEXTS, max_size=3)
)
def test_it_comes_back_as_it_was(name, text, estimate, interval, count, notes):
    gates = []
    for gate in (k_gate(name), fass_gate(name), drop_gate(name), error_gate(name, waived=text)):
        verdict = gate.verdict and dataclasses.replace(
            gate.verdict, estimate=estimate, interval=interval, n=count, notes=tuple(notes)
        )
        gates.append(dataclasses.replace(gate, verdict=verdict, message=text))
    report = session(*gates)
    again = SessionReport.from_json(json.loads(json.dumps(report.to_json(), allow_nan=False)))
    assert again == report


def test_a_file_comes_back_as_it_was_and_is_plain_text(tmp_path):
    report = session(*[k_gate(name) for name in HOSTILE], fass_gate(), drop_gate(), error_gate())
    report.save(tmp_path / "r.json")
    assert SessionReport.load(tmp_path / "r.json") == report
    assert (tmp_path / "r.json").read_text(encoding="utf-8").isascii()


def test_there_is_no_nan_in_it(tmp_path):
    gate = fass_gate()
    facts = (("floor", math.nan), ("parts", (("all", math.inf, 0.5),)))
    report = session(dataclasses.replace(gate, verdict=dataclasses.replace(gate.verdict, facts=facts)))
    plain = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert plain["gates"][0]["verdict"]["facts"] == {"floor": None, "parts": [["all", None, 0.5]]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "not a stabgate report of schema 1 .found None."),
        ('{"schema": 2, "gates": []}', "not a stabgate report of schema 1 .found 2."),
        ('{"schema": 1}', "not a stabgate report"),
        ('{"schema": 1, "gates": [], "what": 3}', "cannot be read"),
        ('{"schema": 1, "accepted": {}}', "of schema 1 .a baseline."),
        ('{"schema": true, "gates": []}', "not a stabgate report"),
        ('{"schema": 1, "gates": NaN}', "NaN is no number of JSON"),
        ('{"schema": 1, "gates": [{"name": 5}]}', "GateReport.name is 5"),
        ('{"schema": 1, "gates": 3}', "cannot be read"),
    ],
)
def test_what_it_cannot_read_it_says(tmp_path, content, message):
    file = tmp_path / "r.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(sg.InputError, match=message) as caught:
        SessionReport.load(file)
    assert str(file) in str(caught.value)
    with pytest.raises(sg.InputError, match="cannot be read"):
        SessionReport.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("field", "value"), [("estimate", "0.5"), ("n", 1.5), ("met", None), ("name", 5), ("measured", True)]
)
def test_a_value_of_another_type_is_named(field, value):
    plain = json.loads(json.dumps(session(k_gate()).to_json()))
    plain["gates"][0]["verdict"][field] = value
    with pytest.raises(sg.InputError, match=f"Verdict.{field} is {re.escape(repr(value))}"):
        SessionReport.from_json(plain)


def test_the_page_of_its_fields_is_that_of_the_code():
    found = runpy.run_path(str(DOCS / "make_report_schema.py"))
    page = found["page"]()
    assert (DOCS / "report-schema.md").read_text(encoding="utf-8") == page, "run: python docs/make_report_schema.py"
    assert "|  |" not in page  # every field has a meaning
    written = session(k_gate()).to_json()
    for name in (*written, *written["gates"][0], *written["gates"][0]["verdict"]):
        assert f"| `{name}` |" in page
    assert set(written["gates"][0]) == {field.name for field in dataclasses.fields(GateReport)}
