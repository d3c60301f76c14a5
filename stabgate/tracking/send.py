"""Waiting sessions to a store, by explicit ids only; what is there already is found by tags and left alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from stabgate.errors import StabgateError, TrackingError
from stabgate.files import locked
from stabgate.mlflow_store import connected, reason, shown
from stabgate.tracking.described import GATE_ID, SESSION, TAG, UNFINISHED, VERDICT, Described, safe_name
from stabgate.tracking.outbox import OUTBOX, REPORT, Entry, lacks_manifest, lock_of, read, remove, waiting
from stabgate.tracking.pictures import draw
from stabgate.tracking.verdicts import Known, tag_versions, tested_version

BATCH = 100  # parameters or tags in one request, MLflow's limit
PAGE = 1000  # runs in one answer
FINISHED = "FINISHED"
ARTIFACTS = "mlartifacts"  # folder beside an embedded database


def send(entry: Entry) -> tuple[str, ...]:
    """Write everything of an entry to its store.

    Returns:
        What the reader should know: model versions that this store does not have.

    Raises:
        TrackingError: the store does not answer, refuses or fails; what was written so far stays, and sending again
            goes on from there.
    """
    with connected(entry.uri) as client:
        experiment = _experiment(client, entry)
        there = {run.data.tags.get(GATE_ID, ""): run for run in _runs_of(client, experiment, entry.id)}
        parent = there.get("")
        parent_id = parent.info.run_id if parent else _create(client, experiment, entry, entry.parent, None)
        if parent is not None and parent.info.status == FINISHED:
            return ()
        versions = {key: tested_version(client, dict(key)) for key in {_key(gate) for gate in entry.gates}}
        known = []
        for i, gate in enumerate(entry.gates):
            run = there.get(gate.tags[GATE_ID])
            version = versions[_key(gate)]
            run_id = run.info.run_id if run else _create(client, experiment, entry, gate, parent_id)
            if run is None or run.info.status != FINISHED:
                draw(entry.files_of(i))
                _fill(client, entry, run_id, gate, entry.files_of(i), version)
            if version is not None:
                known.append(
                    Known(version.name, version.version, gate.tags.get(TAG, gate.name), gate.tags[VERDICT], run_id)
                )
        tag_versions(
            client,
            known,
            experiment=experiment,
            created=entry.created,
            complete=entry.complete,
            unfinished=UNFINISHED in entry.parent.tags,
        )
        _fill(client, entry, parent_id, entry.parent, entry.folder / REPORT, None, artifact_path=REPORT)
    missing = sorted({gate.source["uri"] for gate in entry.gates if versions[_key(gate)] is None and _named(gate)})
    return tuple(f"{address} is not this version there, so its verdict is no tag of it" for address in missing)


def push(outbox: str | os.PathLike[str] = OUTBOX, *, uri: str | None = None) -> Iterator[tuple[Path, str]]:
    """Send every session that waits, oldest first; yields each folder and why it still waits, or "" when it is sent.

    Sending what has been sent already changes nothing. One that another process is sending is left to it, and a damaged
    one stays as it is.

    Args:
        outbox: the folder.
        uri: another store than the one that was meant.
    """
    for folder in waiting(Path(outbox)):
        problem = ""
        try:
            _send_and_remove(folder, uri)
        except StabgateError as error:
            problem = str(error)
        except OSError as error:
            problem = reason(error)
        yield folder, problem


def _send_and_remove(folder: Path, uri: str | None) -> None:
    if lacks_manifest(folder):  # perhaps no session at all: no lock is left beside it
        read(folder)
    with locked(lock_of(folder), 0.0):
        if folder.exists():
            entry = read(folder)
            send(entry if uri is None else replace(entry, uri=uri))
            remove(entry)


def _key(gate: Described) -> tuple[tuple[str, str], ...]:
    """What tells the tested version from others."""
    return tuple((name, gate.source[name]) for name in ("name", "version", "model_id") if name in gate.source)


def _named(gate: Described) -> bool:
    return "name" in gate.source


def _experiment(client: Any, entry: Entry) -> str:
    if entry.experiment.startswith("id:"):
        return str(client.get_experiment(entry.experiment.removeprefix("id:")).experiment_id)
    found = client.get_experiment_by_name(entry.experiment)
    if found is None:
        try:
            return str(client.create_experiment(entry.experiment, artifact_location=_artifacts(entry)))
        except Exception as error:
            found = client.get_experiment_by_name(entry.experiment)  # another session was first
            if found is None:
                raise error
    if found.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow at {shown(entry.uri)}: experiment {entry.experiment!r} was deleted; restore it "
            f"(mlflow experiments restore -x {found.experiment_id}) or choose another (--stabgate-mlflow-experiment)"
        )
    return str(found.experiment_id)


def _artifacts(entry: Entry) -> str | None:
    """Where the artifacts of a new experiment go: beside an embedded database, and to a server's own place.

    MLflow's own default for a database is ./mlruns, which is another folder for every caller, and perhaps the one of
    an older file store.
    """
    if not entry.uri.startswith("sqlite:///"):
        return None
    database = Path(unquote(urlsplit(entry.uri).path[1:]))
    return (database.parent / ARTIFACTS / safe_name(entry.experiment).replace("/", "_")).as_uri()


def _runs_of(client: Any, experiment: str, session: str) -> list[Any]:
    from mlflow.entities import ViewType

    found: list[Any] = []
    token = None
    while True:
        page = client.search_runs(
            [experiment], f"tags.`{SESSION}` = '{session}'", ViewType.ALL, max_results=PAGE, page_token=token
        )
        found += page
        token = page.token
        if not token:
            return found


def _create(client: Any, experiment: str, entry: Entry, described: Described, parent: str | None) -> str:
    tags = dict(described.tags)
    if parent is not None:
        tags["mlflow.parentRunId"] = parent
    run = client.create_run(experiment, start_time=entry.created, tags=tags, run_name=described.name[:250] or "gate")
    return str(run.info.run_id)


def _fill(
    client: Any,
    entry: Entry,
    run_id: str,
    described: Described,
    files: Path,
    version: Any,
    *,
    artifact_path: str | None = None,
) -> None:
    """Everything of one run; that it is finished comes last."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelInput, Metric, Param

    model_id = None if version is None or not version.model_id else version.model_id
    of: dict[str, Any] = {}
    if described.dataset:
        of = {"dataset_name": described.dataset["name"], "dataset_digest": described.dataset["digest"]}
    if model_id is not None:
        of |= {"model_id": model_id, "run_id": run_id}
    metrics = [Metric(name, value, entry.created, 0, **of) for name, value in described.metrics.items()]
    params = [Param(name, value) for name, value in described.params.items()]
    client.log_batch(run_id, metrics=metrics, params=params[:BATCH])
    for start in range(BATCH, len(params), BATCH):
        client.log_batch(run_id, params=params[start : start + BATCH])
    if described.dataset or model_id is not None:
        data = []
        if described.dataset:
            explained = Dataset(**described.dataset, source_type="stabgate")
            data.append(DatasetInput(explained, [InputTag("mlflow.data.context", "stability")]))
        models = [] if model_id is None else [LoggedModelInput(model_id)]
        client.log_inputs(run_id, datasets=data or None, models=models or None)
    if any(files.iterdir()):
        client.log_artifacts(run_id, str(files), artifact_path)
    client.set_terminated(run_id, FINISHED, end_time=entry.created + _milliseconds(described.metrics))


def _milliseconds(metrics: Mapping[str, float]) -> int:
    return int(1000 * metrics.get("seconds", 0.0))


def main(folder: str) -> int:
    """Send the session in a folder, telling the process that waits (`tracking.logging`) what happens."""
    try:
        for note in send(read(Path(folder))):
            print(f"note: {note}", flush=True)
    except StabgateError as error:
        print(f"failed: {error}", flush=True)
        return 1
    except Exception as error:
        print(f"failed: {type(error).__name__}: {reason(error)}", flush=True)
        return 1
    print("sent", flush=True)
    return 0


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1]))
