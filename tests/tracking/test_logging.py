"""Sessions in MLflow: what is logged, what a server in trouble costs, what waits, and what sending again changes."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import shutil
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tracking_cases import at, folders, free_port, renamed, session_of

from stabgate import cli
from stabgate.attributions import Attributions
from stabgate.errors import TrackingError
from stabgate.measure.record import Record
from stabgate.mlflow_store import FIRST, environment, reason
from stabgate.tracking import log_session, push
from stabgate.tracking.outbox import OUTBOX, read, waiting
from stabgate.tracking.pictures import draw
from stabgate.tracking.send import send
from stabgate.verdict.verdicts import Outcome

mlflow = pytest.importorskip("mlflow")
pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore")]


def runs_of(client, experiment):
    found = client.get_experiment_by_name(experiment)
    return (
        [] if found is None else [client.get_run(run.info.run_id) for run in client.search_runs([found.experiment_id])]
    )


def waits(session, root, experiment):
    """A session that could not be sent, and its folder."""
    dead = f"http://127.0.0.1:{free_port()}"
    found = log_session(session, root, uri=dead, experiment=experiment)
    assert not found.sent
    [folder] = waiting(root / OUTBOX)
    return found, folder


def test_what_is_logged_while_a_users_run_is_active(registry, client, measured, tmp_path, monkeypatch):
    gate = measured("models:/credit@challenger")
    lost = renamed(gate, "credit/lost", Outcome.NOT_MEASURED)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    with at(registry):
        mlflow.set_experiment("training")
        with mlflow.start_run() as mine:
            before = dict(os.environ)
            found = log_session(session_of(gate, lost), tmp_path, uri=registry, experiment="logged")
            assert mlflow.active_run().info.run_id == mine.info.run_id
            assert dict(os.environ) == before
            assert mlflow.get_tracking_uri() == registry
            mlflow.log_param("after", 1)
    assert found.sent
    assert found.message == f"logged to MLflow at {registry}, experiment logged"
    assert folders(tmp_path / OUTBOX) == []
    assert client.get_run(mine.info.run_id).data.params == {"after": "1"}

    runs = {run.info.run_name: run for run in runs_of(client, "logged")}
    parent = runs.pop("stabgate 2026-01-02T03:00:00+00:00")
    assert set(runs) == {"credit/lime", "credit/lost"}
    assert all(run.info.status == "FINISHED" for run in (parent, *runs.values()))
    assert parent.data.tags["stabgate.verdict"] == "not-measured"
    assert parent.data.tags["mlflow.source.git.commit"] == "c0ffee"
    assert parent.data.tags["stabgate.job"] == "https://ci.example/7"
    assert parent.data.metrics["gates"] == 2
    assert parent.data.metrics["not_measured"] == 1

    child = runs["credit/lime"]
    tags, params, metrics = child.data.tags, child.data.params, child.data.metrics
    assert tags["mlflow.parentRunId"] == parent.info.run_id
    assert tags["stabgate.verdict"] == "pass"
    assert (tags["stabgate.model.version"], tags["stabgate.model.alias"]) == ("2", "challenger")
    assert (params["explainer"], params["runs"], params["seed"]) == ("lime", "10", "0")
    assert params["explainer_setting.num_samples"] == "500"
    assert params["version.lime"]
    assert params["requirement.k"] == "2"
    verdict = gate.verdict
    assert metrics["share"] == verdict.estimate
    assert metrics["mean_k"] == verdict.fact("mean_k")
    assert (metrics["share_low"], metrics["share_high"]) == pytest.approx(verdict.interval)
    assert metrics["model_rows"] == verdict.cost.rows
    assert all(math.isfinite(value) for run in runs.values() for value in run.data.metrics.values())
    version = client.get_model_version("credit", "2")
    [linked] = child.inputs.model_inputs
    assert version.source == f"models:/{linked.model_id}"
    [data] = child.inputs.dataset_inputs
    assert json.loads(data.dataset.profile) == {"num_rows": 4, "num_features": 3}
    assert [tag.value for tag in data.tags] == ["stability"]

    files = client.download_artifacts(child.info.run_id, "", str(tmp_path))
    assert {"attributions.npz", "distances.npz", "table.csv", "record.json", "heatmap.png", "curve.png"} <= set(
        os.listdir(files)
    )
    attributions = Attributions.load(f"{files}/attributions.npz")
    np.testing.assert_array_equal(attributions.values, Attributions.load(f"{gate.evidence}/attributions.npz").values)
    assert pd.read_csv(f"{files}/table.csv")["k"].mean() == metrics["mean_k"]
    with open(f"{files}/record.json", encoding="utf-8") as file:
        assert Record.from_json(json.load(file)).value == metrics["mean_k"]
    assert [one.path for one in client.list_artifacts(parent.info.run_id, "report")] == ["report/results.json"]


def test_a_dead_server_costs_little_and_nothing_is_lost(registry, client, measured, silent, tmp_path):
    session = session_of(measured("models:/credit@champion"))
    started = time.monotonic()
    found, folder = waits(session, tmp_path, "waited")
    assert time.monotonic() - started < 10
    assert "does not answer" in found.message
    assert "stabgate mlflow push" in found.message
    started = time.monotonic()
    assert "no answer within" in log_session(session, tmp_path / "other", uri=silent).message
    assert time.monotonic() - started < 10

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert list(push(tmp_path / OUTBOX, uri=registry)) == [(folder, "")]
    assert folders(tmp_path / OUTBOX) == []
    first = {run.info.run_id: run.to_dictionary() for run in runs_of(client, "waited")}
    assert len(first) == 2
    shutil.move(copy, folder)  # what a kill just before the folder is removed leaves behind
    assert list(push(tmp_path / OUTBOX, uri=registry)) == [(folder, "")]
    assert {run.info.run_id: run.to_dictionary() for run in runs_of(client, "waited")} == first


@pytest.mark.parametrize(("healthy", "status"), [(1, 503), (8, None), (14, 500)])
def test_a_server_that_fails_or_dies_in_the_middle(proxy, registry, client, measured, tmp_path, healthy, status):
    uri, trouble = proxy
    session = session_of(measured("models:/credit/1"), renamed(measured("models:/credit/1"), "credit/again"))
    experiment = f"middle {healthy}"
    _, folder = waits(session, tmp_path, experiment)
    trouble.healthy, trouble.status = healthy, status
    [(_, problem)] = push(tmp_path / OUTBOX, uri=uri)
    assert problem.startswith(f"MLflow at {uri}")
    assert folder.exists()
    trouble.healthy = 10**9
    assert list(push(tmp_path / OUTBOX, uri=uri)) == [(folder, "")]
    runs = runs_of(client, experiment)
    assert sorted(run.info.run_name for run in runs) == [
        "credit/again",
        "credit/lime",
        "stabgate 2026-01-02T03:00:00+00:00",
    ]
    assert all(run.info.status == "FINISHED" for run in runs)
    for run in runs:
        assert all(len(client.get_metric_history(run.info.run_id, name)) == 1 for name in run.data.metrics)


def test_a_fresh_store_by_four_processes_at_once(measured, tmp_path):
    _, folder = waits(session_of(measured("models:/credit@champion")), tmp_path, "fresh")
    entry = replace(read(folder), uri=f"sqlite:///{tmp_path / 'fresh.db'}")
    forking = multiprocessing.get_context("fork")
    start = forking.Barrier(4)

    def work(i):
        os.chdir(tmp_path)
        start.wait(60)
        send(replace(entry, id=str(i)))

    working = [forking.Process(target=work, args=(i,)) for i in range(4)]
    for process in working:
        process.start()
    for process in working:
        process.join(240)
    assert [process.exitcode for process in working] == [0, 0, 0, 0]
    assert len(runs_of(mlflow.MlflowClient(tracking_uri=entry.uri), "fresh")) == 8


def test_a_store_that_is_read_only_or_full_loses_nothing(measured, tmp_path):
    """Both for real: SQLite's own read-only mode, and a limit on the size of files that the sender inherits."""
    gate = measured("models:/credit@champion")
    file = tmp_path / "store.db"
    uri = f"sqlite:///{file}"
    assert log_session(session_of(gate), tmp_path, uri=uri).sent
    found = log_session(session_of(gate, minute=1), tmp_path, uri=f"sqlite:///file:{file}?mode=ro&uri=true")
    assert not found.sent
    assert "readonly database" in found.message
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 4, limits[1]))
    try:
        full = log_session(session_of(gate, minute=2), tmp_path, uri=uri)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not full.sent
    assert "disk I/O error" in full.message
    assert [problem for _, problem in push(tmp_path / OUTBOX, uri=uri)] == [""] * 2
    client = mlflow.MlflowClient(tracking_uri=uri)
    names = [run.info.run_name for run in runs_of(client, "stabgate")]
    assert len([name for name in names if name.startswith("stabgate ")]) == 3
    assert all(run.info.status == "FINISHED" for run in runs_of(client, "stabgate"))


def test_a_deleted_experiment_and_a_damaged_folder_wait_with_their_reason(registry, client, measured, tmp_path):
    client.delete_experiment(client.create_experiment("gone"))
    _, folder = waits(session_of(measured("models:/credit@champion")), tmp_path, "gone")
    broken = folder.with_name("1-broken")
    broken.mkdir()
    (broken / "session.json").write_text("{")
    problems = dict(push(tmp_path / OUTBOX, uri=registry))
    assert problems[broken].startswith(f"{broken}: damaged: session.json cannot be read (")
    assert problems[broken].endswith("); restore the file, or remove the folder to give the session up")
    assert "was deleted; restore it" in problems[folder]
    with pytest.raises(TrackingError, match="was deleted"):
        send(replace(read(folder), uri=registry))


def test_files_that_are_missing_or_cut_are_named_and_nothing_is_sent(registry, client, measured, tmp_path):
    _, folder = waits(session_of(measured("models:/credit@champion")), tmp_path, "cut")
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    home = folder / "gates" / "0000"
    draw(home)  # what an earlier attempt has added is no damage
    sizes = {name: os.path.getsize(home / name) for name in ("attributions.npz", "gate.json", "record.json")}
    (home / "attributions.npz").unlink()
    (home / "record.json").unlink()
    os.truncate(home / "gate.json", 10)
    assert list(push(tmp_path / OUTBOX, uri=registry)) == [
        (
            folder,
            f"{folder}: damaged: "
            f"gates/0000/attributions.npz is missing ({sizes['attributions.npz']:,} bytes when it was written); "
            f"gates/0000/gate.json has 10 bytes ({sizes['gate.json']:,} when it was written); "
            f"gates/0000/record.json is missing ({sizes['record.json']:,} bytes when it was written); "
            "restore the files, or remove the folder to give the session up",
        )
    ]
    shutil.rmtree(home)
    there = len(os.listdir(whole / "gates" / "0000"))
    [(_, problem)] = push(tmp_path / OUTBOX, uri=registry)
    assert problem.count("is missing (") == 5
    assert f"; {there - 5} more; restore the files" in problem
    assert client.get_experiment_by_name("cut") is None

    shutil.copytree(whole / "gates", folder / "gates", dirs_exist_ok=True)
    draw(home)
    assert list(push(tmp_path / OUTBOX, uri=registry)) == [(folder, "")]
    [child] = [run for run in runs_of(client, "cut") if run.info.run_name == "credit/lime"]
    sent = {one.path for one in client.list_artifacts(child.info.run_id)}
    assert sent == {*os.listdir(whole / "gates" / "0000"), "heatmap.png", "curve.png"}


def test_a_folder_without_its_list_of_files_is_no_success(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lost = OUTBOX / "1767322800000-0123456789ab"
    for folder in (lost, OUTBOX / ".partial-x", OUTBOX / ".sent-2-x"):
        folder.mkdir(parents=True)
    assert cli.main(["mlflow", "push"]) == 1
    out = capsys.readouterr().out
    assert f"{lost.name}: still waits: {lost}: damaged, or no session at all: session.json is missing; " in out
    assert "restore the file, or remove the folder to give the session up" in out
    assert "0 sent, 1 still waiting" in out
    assert folders(OUTBOX) == [".partial-x", ".sent-2-x", lost.name]


def test_of_a_long_reason_start_and_end_stay(silent):
    with environment({**FIRST, "MLFLOW_HTTP_REQUEST_TIMEOUT": "1"}), pytest.raises(Exception) as caught:
        mlflow.MlflowClient(tracking_uri=silent).search_experiments()
    text = " ".join(str(caught.value).split())
    assert len(text) > 300
    found = reason(caught.value)
    assert len(found) <= 300
    start, end = found.split(" ... ")
    assert text.startswith(start)
    assert text.endswith(end)
    assert silent in start
    assert "Read timed out. (read timeout=1)" in end


def test_where_the_project_cannot_be_written_to_the_session_waits_elsewhere(measured, tmp_path, monkeypatch):
    (tmp_path / ".stabgate").write_text("a file where the folder would be")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    found = log_session(
        session_of(measured("models:/credit@champion")), tmp_path, uri=f"http://127.0.0.1:{free_port()}"
    )
    outbox = tmp_path / "temporary" / "stabgate-outbox"
    assert len(waiting(outbox)) == 1
    assert f"stabgate mlflow push {outbox}" in found.message
