"""Verdicts as tags of model versions, their records as baselines, and their history."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from tracking_cases import X, at, free_port, renamed, session_of

import stabgate as sg
from stabgate import cli
from stabgate.gate_regression import judge_no_regression
from stabgate.measure.record import Record
from stabgate.report.evidence import save_evidence, source_of
from stabgate.report.session import GateReport
from stabgate.tracking import log_session, push, registry_baseline
from stabgate.tracking.outbox import OUTBOX, read, waiting
from stabgate.tracking.send import send
from stabgate.tracking.verdicts import tag_of
from stabgate.verdict.verdicts import Outcome

mlflow = pytest.importorskip("mlflow")
pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def logged(registry, tmp_path):
    """Logs sessions without the cost of a process for each."""

    def log(session, experiment="versions"):
        log_session(session, tmp_path, uri=f"http://127.0.0.1:{free_port()}", experiment=experiment)
        [folder] = waiting(tmp_path / OUTBOX)
        notes = send(replace(read(folder), uri=registry))
        shutil.rmtree(folder)
        return notes

    return log


def tags(client, version):
    found = client.get_model_version("credit", version).tags
    return {name: value for name, value in found.items() if name.endswith("verdict")}


def untagged(client, version):
    """The registry is that of all tests: what other sessions said of a version goes."""
    for tag in client.get_model_version("credit", version).tags:
        if tag.startswith("stabgate."):
            client.delete_model_version_tag("credit", version, tag)


def test_only_versions_all_of_whose_gates_pass_have_the_verdict_pass(client, measured, logged):
    for version in ("1", "2"):  # the registry is that of all tests: what others said of its versions goes first
        untagged(client, version)
    gate = measured("models:/credit/1")
    steady, shaky = renamed(gate, "a/steady", Outcome.PASS), renamed(gate, "a/shaky: ü", Outcome.FAIL)
    other = renamed(measured("models:/credit/2"), "a/steady", Outcome.PASS)
    assert logged(session_of(steady, shaky, other, minute=1)) == ()
    assert tags(client, "1") == {
        "stabgate.verdict": "fail",
        "stabgate.a/steady.verdict": "pass",
        tag_of("a/shaky: ü"): "fail",
    }
    assert tags(client, "2") == {"stabgate.verdict": "pass", "stabgate.a/steady.verdict": "pass"}
    # Some of the gates: what the other one found still counts.
    logged(session_of(steady, minute=2, complete=False))
    assert tags(client, "1")["stabgate.verdict"] == "fail"
    # Another project's complete session says nothing about the gates of this one.
    logged(session_of(renamed(gate, "b/other", Outcome.INCONCLUSIVE), minute=3), "elsewhere")
    assert tags(client, "1")["stabgate.verdict"] == "fail"
    logged(session_of(renamed(gate, "b/other", Outcome.PASS), minute=4), "elsewhere")
    # All of them, and one is gone.
    logged(session_of(steady, minute=6))
    assert tags(client, "1") == {
        "stabgate.verdict": "pass",
        "stabgate.a/steady.verdict": "pass",
        "stabgate.b/other.verdict": "pass",
    }
    # What waited in the outbox is older than what is there.
    logged(session_of(renamed(gate, "a/steady", Outcome.FAIL), minute=5))
    assert tags(client, "1")["stabgate.verdict"] == "pass"
    run = client.get_model_version("credit", "1").tags["stabgate.a/steady.run"]
    assert client.get_run(run).data.tags["stabgate.gate"] == "a/steady"


def test_a_gate_that_failed_before_its_verdict_takes_the_pass_away(registry, client, measured, logged):
    gate = measured("models:/credit/2", name="early/lime")
    logged(session_of(gate, minute=20, complete=False))
    assert tags(client, "2")["stabgate.early/lime.verdict"] == "pass"
    with at(registry):
        explainer = sg.explainers.Lime("models:/credit/2", background=X)
    assert source_of(explainer) == gate.record["source"]
    error = GateReport("early/lime", "k-stability", "k >= 2", "t.py::t", None, "k=9 asks", source=source_of(explainer))
    logged(session_of(error, minute=21, complete=False))
    assert tags(client, "2")["stabgate.early/lime.verdict"] == "not-measured"
    assert tags(client, "2")["stabgate.verdict"] == "not-measured"
    untagged(client, "2")


def test_a_run_that_did_not_finish_passes_no_version_and_kinds_have_tags_of_their_own(client, measured, logged):
    untagged(client, "2")
    gate = renamed(measured("models:/credit/2"), "kinds/lime", Outcome.PASS)
    drop = replace(gate, kind="regression", verdict=replace(gate.verdict, outcome=Outcome.FAIL))
    logged(replace(session_of(gate, minute=30, complete=False), unfinished="did not run: t.py::test_two"))
    assert tags(client, "2") == {"stabgate.kinds/lime.verdict": "pass", "stabgate.verdict": "not-measured"}
    logged(session_of(drop, minute=31, complete=False))
    logged(session_of(gate, minute=32, complete=False))
    assert tags(client, "2")["stabgate.kinds/lime.drop.verdict"] == "fail"
    assert tags(client, "2")["stabgate.verdict"] == "fail"
    untagged(client, "2")  # other tests ask what their own sessions say


def test_a_version_that_the_store_does_not_have_is_said(measured, logged, tmp_path):
    gate = measured("models:/credit/1")
    source = {**gate.record["source"], "name": "elsewhere"}
    notes = logged(session_of(replace(gate, record={**gate.record, "source": source})))
    assert notes == ("models:/credit/1 is not this version there, so its verdict is no tag of it",)
    another = {**gate.record["source"], "model_id": "m-another"}
    assert logged(session_of(replace(gate, record={**gate.record, "source": another})))


def test_a_registry_version_as_baseline(registry, client, measured, logged):
    from sklearn.linear_model import LogisticRegression

    with at(registry):
        with mlflow.start_run():
            mlflow.sklearn.log_model(
                LogisticRegression().fit(X, X["age"] > 0.5),
                name="model", registered_model_name="loan", pip_requirements=[],
            )  # fmt: skip
        client.set_registered_model_alias("loan", "champion", "1")
        gate = measured("models:/loan@champion", name="loan/lime")
        explainer = sg.explainers.Lime("models:/loan/1", background=X, num_samples=500, discretize_continuous=False)
        result = sg.measure_k_stability(explainer, X[:4], runs=10)
        with pytest.raises(sg.InputError) as never:
            sg.assert_no_regression(result, "models:/loan@champion", max_drop=0.1)
        assert "version 1 of loan (alias champion), and its stability was never measured" in str(never.value)
        assert "model='models:/loan/1'" in str(never.value)
        assert f"pytest --stabgate-mlflow=require --stabgate-mlflow-uri={registry}" in str(never.value)

        logged(session_of(gate))
        verdict = sg.assert_no_regression(result, "models:/loan@champion", max_drop=0.1)
        assert verdict.estimate == 0.0
        assert "models:/loan@champion (version 1 of loan (alias champion), measured 2026-01-02" in str(
            verdict.requirement.baseline
        )
        record, description = registry_baseline("models:/loan/1")
        assert record == Record.from_json(gate.record)
        assert description == "version 1 of loan, measured 2026-01-02T03:00:00+00:00 by loan/lime"

        other = measured("models:/loan/1", name="loan/wide", samples=300)
        logged(session_of(other, minute=1))
        with pytest.raises(
            sg.InputError, match=r"several gates, 'loan/lime', 'loan/wide'; say which .* name='loan/lime'"
        ):
            registry_baseline("models:/loan/1")
        assert registry_baseline("models:/loan/1", name="loan/wide")[0] == Record.from_json(other.record)
        assert registry_baseline("models:/loan/1", like=Record.of(result))[0] == record
        rand = sg.measure_k_stability(sg.explainers.Random(), X[:4], runs=10)
        with pytest.raises(sg.InputError, match="was measured with lime, not with random"):
            sg.assert_no_regression(rand, "models:/loan/1", max_drop=0.1)


def test_history_of_versions(registry, client, measured, logged, tmp_path, capsys, monkeypatch):
    gates = [measured(f"models:/credit/{version}", name="history/lime") for version in (1, 2)]
    logged(session_of(measured("models:/credit/1", name="history/lime", samples=300), minute=10))
    logged(session_of(*gates, minute=11))
    frame = sg.history("models:/credit", tracking_uri=registry)
    frame = frame[frame["gate"] == "history/lime"]
    assert frame["version"].tolist()[-1] == 1
    assert sorted(frame["version"].tolist()[:2]) == [1, 2]
    assert frame["aliases"].tolist()[-1] == "champion"
    assert frame["comparable"].tolist() == [True, True, False]
    assert "explainer_setting.num_samples 300 (newest 500)" in frame["differs"].tolist()[-1]
    newest = frame[frame["version"] == 2].iloc[0]
    verdict = gates[1].verdict
    assert (newest["k"], newest["share"]) == (verdict.fact("mean_k"), verdict.estimate)
    assert (newest["low"], newest["high"]) == pytest.approx(verdict.interval)
    assert set(sg.history("models:/credit@challenger", tracking_uri=registry)["version"]) == {2}

    # A gate that only compares has been measured too, and its values stand where those of other gates do.
    with at(registry):
        explainer = sg.explainers.Lime("models:/credit/2", background=X, num_samples=300)
    result = sg.measure_k_stability(explainer, X[:4], runs=8)
    for k in (None, 2):
        judged = judge_no_regression(result, Record.of(result), max_drop=0.1, k=k, name="history/drop")
        found = GateReport("history/drop", "regression", "", "test_credit.py::test", judged.verdict, judged.message)
        logged(session_of(save_evidence(found, result, str(tmp_path)), minute=12 + (k or 0)))
        frame = sg.history("models:/credit", tracking_uri=registry)
        newest = frame[frame["gate"] == "history/drop"].iloc[0]
        assert (newest["version"], newest["kind"], newest["verdict"]) == (2, "regression", "pass")
        assert newest["k"] == result.mean_k
    assert newest["share"] == pytest.approx(np.mean([row.chance(2) for row in Record.of(result).rows]))

    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry)
    png, csv = tmp_path / "history.png", tmp_path / "history.csv"
    assert cli.main(["history", "models:/credit", "--csv", str(csv), "--plot", str(png)]) == 0
    text = capsys.readouterr().out
    assert "not comparable with the newest record of its gate" in text
    assert png.read_bytes().startswith(b"\x89PNG")
    assert len(csv.read_text().splitlines()) > 3
    assert cli.main(["history", "models:/credt"]) == 2
    assert "there is no registered model 'credt'" in capsys.readouterr().err


def test_push_from_the_command_line(registry, client, measured, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["mlflow", "push"]) == 0
    assert "nothing waits" in capsys.readouterr().out
    dead = f"http://127.0.0.1:{free_port()}"
    log_session(session_of(measured("models:/credit/1")), tmp_path, uri=dead, experiment="pushed")
    assert cli.main(["mlflow", "push"]) == 1
    assert "still waits: MLflow at" in capsys.readouterr().out
    assert cli.main(["mlflow", "push", "--uri", registry]) == 0
    assert "1 sent, 0 still waiting" in capsys.readouterr().out
    assert list(push(OUTBOX)) == []
    assert np.isfinite(len(client.search_runs([client.get_experiment_by_name("pushed").experiment_id])))
