"""Accepting what a report measured, and deleting what a complete run did not use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from records import of_fass, of_k

import stabgate as sg
from stabgate.baselines.folder import portable
from stabgate.baselines.store import Baselines
from stabgate.cli import main
from stabgate.measure.record import Record
from stabgate.report.session import GateReport, SessionReport


def gate(name: str, record: Record | None, kind: str = "regression", message: str = "") -> GateReport:
    plain = None if record is None else record.to_json()
    baseline = name if kind == "regression" else ""
    return GateReport(name, kind, "", f"test_a.py::test_{name}", None, message=message, baseline=baseline, record=plain)


def report(*gates: GateReport, because: str = "", stored: tuple[str, ...] = ()) -> SessionReport:
    when = "2026-01-02T03:04:05+00:00"
    return SessionReport(gates, not because, because, when, baselines="stabgate-baselines", stored=stored)


def test_the_folder_of_the_project_is_found_wherever_the_command_is_given(tmp_path, monkeypatch, capsys):
    project = tmp_path / "project"
    for folder in ("docs", "out", "stabgate-baselines"):
        (project / folder).mkdir(parents=True)
    found = report(gate("credit/shap", of_k()))
    found.save(project / "out" / "ci.json")
    home = Baselines(project / "stabgate-baselines")
    for i, here in enumerate((project / "docs", tmp_path, project)):
        monkeypatch.chdir(here)
        report(gate("credit/shap", of_k(seed=i))).save(project / "out" / "ci.json")
        assert main(["accept", str(project / "out" / "ci.json"), "--reason", "x"]) == 0
        assert home.read("credit/shap").record.seed == i
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".git").mkdir()
    (tmp_path / "elsewhere" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere" / "deep")
    found.save("ci.json")
    assert main(["accept", "ci.json", "--reason", "a first one"]) == 0  # there is none yet
    assert Baselines(tmp_path / "elsewhere" / "stabgate-baselines").names() == ["credit/shap"]
    assert "elsewhere/stabgate-baselines/credit/shap.json" in capsys.readouterr().out
    assert portable(project / "a" / "b", project) == "a/b"
    assert portable(tmp_path / "b", project) == str(tmp_path / "b")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Save a report and give a command about it: (exit code, what it said)."""
    monkeypatch.chdir(tmp_path)

    def command(which: str, found: SessionReport, *more: str) -> tuple[int, str]:
        found.save("results.json")
        code = main([which, "results.json", *more])
        said = capsys.readouterr()
        return code, said.out + said.err

    return command


def test_what_was_measured_becomes_the_baseline(run, tmp_path):
    found = report(gate("credit/shap", of_k()), gate("photos", of_fass()), gate("floor", of_k(), "k-stability"))
    code, said = run("accept", found, "--reason", "measured  in CI")
    assert code == 0
    assert said.splitlines() == [
        "credit/shap: new, stabgate-baselines/credit/shap.json",
        "photos: new, stabgate-baselines/photos.json",
    ]
    baselines = Baselines(tmp_path / "stabgate-baselines")
    assert baselines.read("credit/shap").record == of_k()
    assert baselines.read("photos").record == of_fass()
    assert baselines.read("photos").accepted.why == "measured in CI"
    code, said = run(
        "accept", report(gate("credit/shap", of_k(seed=1)), gate("photos", of_fass())), "--reason", "again"
    )
    assert [line.split(",")[0] for line in said.splitlines()] == ["credit/shap: updated", "photos: unchanged"]
    code, said = run("accept", found, "photos", "--reason", "x", "--baselines", "elsewhere")
    assert code == 0
    assert Baselines(tmp_path / "elsewhere").names() == ["photos"]


def test_where_one_cannot_be_written_none_is(run, tmp_path):
    baselines = Baselines(tmp_path / "stabgate-baselines")
    for name in ("a", "b"):
        baselines.write(name, of_k(), "first")
    baselines.path("a").with_suffix(".npz").write_bytes(b"matrices")
    baselines.path("b").write_text(baselines.path("b").read_text().replace('"schema": 1', '"schema": 99'))
    before = baselines.path("a").read_text()
    code, said = run("accept", report(gate("a", of_k(seed=1)), gate("b", of_k(seed=1))), "--reason", "x")
    assert code == 2
    assert "schema 99" in said
    assert baselines.path("a").read_text() == before
    assert baselines.path("a").with_suffix(".npz").read_bytes() == b"matrices"


unmeasured = replace(of_k(), rows=(replace(of_k().rows[0], k=0, halves=(), reason="no licence"), *of_k().rows[1:]))
short = replace(of_k(), runs=3, rows=tuple(replace(row, halves=()) for row in of_k().rows))


@pytest.mark.parametrize(
    ("gates", "arguments", "message"),
    [
        ([gate("a", None, message="k=9 asks\nfor more")], ["--reason", "x"], "a: was not measured (k=9 asks)"),
        ([gate("a", unmeasured)], ["--reason", "x"], "a: 1 of 3 rows were not measured (row row 0: no licence)"),
        ([gate("a", short)], ["--reason", "x"], "a: 3 runs have no half-samples"),
        ([gate("a", of_k())], ["b", "--reason", "x"], "b: no gate of the report has a baseline of this name"),
        ([gate("credit/shap", of_k())], ["credit/shp", "--reason", "x"], "did you mean credit/shap?"),
        ([gate("a", of_k()), gate("f", of_k(), "FASS")], ["f", "--reason", "x"], "f: a gate without a baseline"),
        ([gate("a", of_k()), gate("a", of_k())], ["--reason", "x"], "a: used by 2 gates"),
        ([gate("f", of_k(), "FASS")], ["--reason", "x"], "the report has no gate with a baseline"),
        ([gate("a", of_k())], ["--reason", " "], "the reason is empty"),
        ([gate("b", of_k()), gate("a", None)], ["--reason", "x"], "nothing was accepted: a: was not measured"),
    ],
)
def test_what_cannot_be_accepted_is_refused_and_nothing_is_written(run, tmp_path, gates, arguments, message):
    code, said = run("accept", report(*gates), *arguments)
    assert code == 2
    assert message in said
    assert not (tmp_path / "stabgate-baselines").exists()


def test_only_what_a_complete_run_did_not_use_is_deleted(run, tmp_path):
    baselines = Baselines(tmp_path / "stabgate-baselines")
    stored = ("used", "old/one", "old/two", "foreign")
    for name in (*stored[:3], "written/later"):
        baselines.write(name, of_k(), "b")
    baselines.path("old/one").with_suffix(".npz").write_bytes(b"matrices")
    (baselines.folder / "foreign.json").write_text('{"mine": 1}')
    used = gate("used", of_k())
    code, said = run("prune", report(used, because="2 tests were left out"))
    assert code == 2
    assert "not complete (2 tests were left out)" in said
    code, said = run("prune", report())
    assert code == 2
    assert "the report has no gates" in said
    assert len(baselines.names()) == 5
    code, said = run("prune", report(used, stored=stored))
    assert code == 0
    assert said.splitlines()[:3] == [
        f"deleted stabgate-baselines/old/{file}" for file in ("one.json", "one.npz", "two.json")
    ]
    assert "left alone: " in said
    assert "foreign.json: not a baseline" in said
    assert "later.json was not there when the report was written: it says nothing of it" in said
    assert baselines.names() == ["foreign", "used", "written/later"]
    assert not (baselines.folder / "old").exists()
    code, said = run("prune", report(used, stored=stored))
    assert (code, said.splitlines()[-1]) == (0, "nothing to delete in stabgate-baselines")


def test_what_is_no_report_is_refused(tmp_path, capsys):
    (tmp_path / "x.json").write_text("{}")
    for command in (["accept", str(tmp_path / "x.json"), "--reason", "x"], ["prune", str(tmp_path / "nowhere.json")]):
        assert main(command) == 2
    assert "not a stabgate report" in capsys.readouterr().err


def test_the_report_is_as_public_as_the_gates():
    assert isinstance(report(), sg.SessionReport)
