"""The JUnit file of a run without pytest, and `stabgate report`, which makes each form of a JSON document."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from sessions import HOSTILE, drop_gate, error_gate, fass_gate, k_gate, session

from stabgate.cli import main
from stabgate.report.junit import junit
from stabgate.report.markdown import markdown
from stabgate.verdict.verdicts import Outcome


def test_each_gate_is_a_case_with_numbers_and_what_blocks_is_a_failure_or_an_error():
    gates = (k_gate(), error_gate(), fass_gate(), drop_gate(warns=True), k_gate("b", waived="until 2026-02-01: known"))
    suite = ET.fromstring(junit(session(*gates)))[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "0"]
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == sorted(cases)
    assert cases["credit/lime"].find("failure").get("message") == "7 of 10 rows meet k >= 3, 9 are needed (90 %)"
    assert cases["credit/wrong"].find("error").get("type") == "NOT MEASURED"
    assert cases["credit/shap"].find("failure") is cases["b"].find("error") is None
    assert cases["b"].find("system-out").text.startswith("FAIL (waived until 2026-02-01: known)\n")
    found = {entry.get("name"): entry.get("value") for entry in cases["photos/ig"].iter("property")}
    assert found["stabgate.photos/ig.verdict"] == "PASS"
    assert [float(found[f"stabgate.photos/ig.{what}"]) for what in ("estimate", "low", "high")] == [0.7, 0.65, 0.75]


def test_hostile_names_are_valid_xml():
    suite = ET.fromstring(junit(session(*[k_gate(name) for name in HOSTILE])).encode("utf-8"))[0]
    assert len(suite) == len(HOSTILE)
    assert "<script>alert(1)</script>" in {case.get("name") for case in suite}


def test_report_writes_each_form(tmp_path, capsys):
    report = session(k_gate(), k_gate("good", 10, Outcome.PASS))
    report.save(tmp_path / "r.json")
    made = [f"--{form}={tmp_path / form}" for form in ("markdown", "junit")]
    assert main(["report", str(tmp_path / "r.json"), *made]) == 0
    assert (tmp_path / "markdown").read_text(encoding="utf-8") == markdown(report)
    assert (tmp_path / "junit").read_text(encoding="utf-8") == junit(report)
    assert main(["report", str(tmp_path / "r.json")]) == 2
    assert "say what to write" in capsys.readouterr().err
