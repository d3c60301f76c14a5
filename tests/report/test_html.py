"""The page as text: a function of the document, closed to the network, with every name as text."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import unicodedata
from dataclasses import replace

import measured_sessions as sessions
import numpy as np
import pytest

import stabgate as sg
from stabgate.cli import main
from stabgate.errors import MissingDependencyError
from stabgate.gate import judge_min_k_stability
from stabgate.report.evidence import with_details
from stabgate.report.html import LIMIT, render_html
from stabgate.report.session import GateReport, SessionReport
from stabgate.report.view import comparisons_of, views_of


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    return sessions.session(tmp_path_factory.mktemp("evidence"))


@pytest.fixture(scope="module")
def page(session):
    return render_html(session)


class Tags(html.parser.HTMLParser):
    """Elements, attributes and the texts of scripts, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.scripts, self._open = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append([dict(attrs), ""])
            self._open = True

    def handle_endtag(self, tag):
        self._open = self._open and tag != "script"

    def handle_data(self, data):
        if self._open:
            self.scripts[-1][1] += data


def gate(name: str, message: str = "why") -> GateReport:
    return GateReport(name, "k-stability", "k >= 2", "t.py::t", None, message=message)


def page_of(*gates: GateReport) -> str:
    return render_html(SessionReport(gates, True, "", "2026-11-30T09:00:00+00:00"))


def test_the_page_from_the_document_is_the_page_of_the_run(session, page, tmp_path):
    session.save(tmp_path / "results.json")
    assert render_html(SessionReport.load(tmp_path / "results.json")) == page
    assert main(["report", str(tmp_path / "results.json"), "--html", str(tmp_path / "out" / "page.html")]) == 0
    assert (tmp_path / "out" / "page.html").read_text(encoding="utf-8") == page


def test_no_element_could_ask_for_anything(page):
    found = Tags(page)
    assert not {tag for tag, _ in found.tags} & {"iframe", "object", "embed", "base", "video", "audio", "img"}
    addresses = [value for _, attrs in found.tags for name, value in attrs.items() if name in ("src", "href", "action")]
    assert addresses == ["data:,", "#gates"]
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)


def test_the_policy_lets_exactly_the_page_s_own_scripts_run(page):
    found = Tags(page)
    policy = next(attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv"))
    run = [text for attrs, text in found.scripts if attrs.get("type") != "application/json"]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run}
    assert set(re.search(r"script-src ([^;]*)", policy).group(1).split()) == hashes
    assert len(hashes) == 2
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy


def test_hostile_names_stay_in_texts_and_data(page):
    found = Tags(page)
    assert not any("window.hacked" in text for attrs, text in found.scripts if not attrs.get("type"))
    blocks = [json.loads(text) for attrs, text in found.scripts if attrs.get("type") == "application/json"]
    assert any(set(sessions.HOSTILE) == set((block or {}).get("features", ())) for block in blocks)


@pytest.mark.parametrize("name", ["x\ud800y", "\x00\x1b[31m", "‮evil", "{{ 7 * 7 }}", "<!--", "'\"&amp;"])
def test_names_that_nobody_should_have_make_a_page(name):
    text = page_of(gate(name, message=name))
    text.encode("utf-8")
    assert ">49<" not in text
    assert len(Tags(text).tags) == len(Tags(page_of(gate("plain"))).tags)


def test_what_cannot_be_seen_is_written_out_in_every_name(tmp_path):
    names = ["line\none", "\x1b[31mred", "\u202eleft", "plain"]
    rows = sessions.rows(3).iloc[:, :4].set_axis(names, axis=1).set_axis(["a\tb", "\x07", "c"])

    def explain(X, seed):
        return sessions.MEANS[:4] + 0.5 * np.random.default_rng(seed).normal(size=4)

    explainer = sg.explainers.Custom(explain, name="e\x1bx")
    judged = judge_min_k_stability(sg.measure_k_stability(explainer, rows, runs=10), k=4, name="gate\x1b\nname")
    shown = with_details([sessions.reported("gate\x1b\nname", judged, tmp_path)])
    text = render_html(SessionReport(tuple(shown), False, "\x9b", "2026-11-30T09:00:00+00:00"))
    own, block = text[: text.index('<script type="application/json"')], Tags(text).scripts[0][1]
    assert not [c for c in own + block if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]
    assert "<bdi>gate\\x1b\\nname</bdi>" in own
    data = json.loads(block)
    assert set(data["features"]) <= {"line\\none", "\\x1b[31mred", "\\u202eleft", "plain"}
    assert {row["id"] for row in data["rows"]} == {"a\\tb", "\\x07", "c"}
    assert not re.search(r"\\u(00[0189]|20)|\\[nrt]", block.replace("\\\\", ""))  # JSON's own escapes


def test_words_of_the_overview(session):
    views = {view.name.split(" ")[0]: view for view in views_of(session)}
    lime = views["credit/lime"]
    verdict = next(one for one in session.gates if one.name == "credit/lime").verdict
    assert lime.measured == f"{10 * verdict.met} % ({verdict.met} of 10 rows)"
    assert lime.bar.need == 85  # 9 of 10 rows are needed, and an end of the interval reaches them from half a row below
    assert lime.bar.low <= lime.bar.at <= lime.bar.high
    assert views["credit/drop"].measured.startswith("fell by ")
    assert views["broken"].measured == "nothing"
    assert views["broken"].bar is None


def test_methods_on_the_same_rows_are_compared_and_others_are_not(session):
    (found,) = comparisons_of(session)
    assert [name.split(" [")[1] for name in found.names] == ["noise 0.15]", "noise 0.01]"]
    records = {gate.name.split(" ")[0]: gate.record for gate in session.gates if gate.record is not None}
    shaky, steady = ([row["k"] for row in records[name]["rows"]] for name in ("credit/lime", "steady"))
    assert found.shares[0][1] == sum(a >= b for a, b in zip(shaky, steady, strict=True)) / 10
    assert found.shares[1][0] == sum(b >= a for a, b in zip(shaky, steady, strict=True)) / 10
    asked = {**records["steady"]["explainer"], "target": 1}
    explained = [{**row, "target": "1"} for row in records["steady"]["rows"]]
    for field, value in (
        ("runs", 21),
        ("settings", {"threshold": 0.8}),
        ("model_hash", "another"),
        ("explainer", asked),
        ("rows", explained),
    ):
        other = [
            replace(gate, record={**gate.record, field: value}) if gate.name.startswith("steady") else gate
            for gate in session.gates
        ]
        assert comparisons_of(replace(session, gates=tuple(other))) == []


def test_a_run_without_gates_and_one_that_passed_say_so():
    assert "No gate came to a verdict in this run." in page_of()
    assert "1 of 1 gate did not pass." in page_of(gate("a"))


def test_an_overview_that_is_too_large_keeps_problems_and_counts_the_rest():
    text = page_of(*(gate(f"g{i}", message="m" * 4000) for i in range(3000)))
    assert len(text.encode()) < LIMIT
    shown = text.count('<tbody class="gate')
    assert 300 < shown < 3000
    assert f"{3000 - shown} more gates are not shown" in text


def test_the_report_command_says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "results.json").write_text("{}")
    assert main(["report", str(tmp_path / "results.json")]) == 2
    assert "--html FILE" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "results.json"), "--html", str(tmp_path / "x.html")]) == 2
    assert "schema" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_without_the_chart_library_the_extra_is_named(monkeypatch, session):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"jinja2.*stabgate\[report\]"):
        render_html(session)
