"""The record of a model version as a baseline: found by the tags of its runs, read from their artifacts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from stabgate.errors import InputError
from stabgate.logged_models import Version, find_version, parse_registered, quoted
from stabgate.measure.record import Record
from stabgate.mlflow_store import connected, shown, store_uri
from stabgate.tracking.described import MODEL_NAME, MODEL_VERSION

PAGE = 1000
RECORD = "record.json"
MOST_CANDIDATES = 20  # records that are read to find the one that is alike


def registry_baseline(
    uri: str, *, name: str | None = None, like: Record | None = None, tracking_uri: str | None = None
) -> tuple[Record, str]:
    """The latest stability record of a registered model version.

    Args:
        uri: "models:/credit@champion" or "models:/credit/7".
        name: of the gate: its record is taken where the version has one.
        like: what the record will be compared with: of several gates, those of the same metric and explainer count.
        tracking_uri: the store; None is the session's, or MLflow's own.

    Returns:
        The record, and a description for people: which version, measured when, by which gate.

    Raises:
        InputError: no such version; it was never measured, with the command that measures it; several gates measured
            it and neither name nor explainer tells which is meant.
        TrackingError: the store does not answer.
    """
    parse_registered(uri)
    where = store_uri(tracking_uri)
    with connected(where) as client:
        version = find_version(client, uri)
        runs = runs_of_model(client, version.name, version.version)
        if not runs:
            raise InputError(_never(uri, version, where))
        run, record = _choose(client, runs, version, name, like)
        tags = run.data.tags
        return record, f"{version}, measured {tags.get('stabgate.when', 'before')} by {tags.get('stabgate.gate', '?')}"


def runs_of_model(client: Any, name: str, version: str | None = None) -> list[Any]:
    """Runs of gates that tested a registered model, newest first; of one version, or of all."""
    wanted = f"tags.`{MODEL_NAME}` = {quoted(name)}"
    if version is not None:
        wanted += f" AND tags.`{MODEL_VERSION}` = {quoted(version)}"
    experiments: list[str] = []
    token = None
    while True:
        page = client.search_experiments(max_results=PAGE, page_token=token)
        experiments += [str(one.experiment_id) for one in page]
        token = page.token
        if not token:
            break
    found: list[Any] = []
    while experiments:
        page = client.search_runs(
            experiments, wanted, max_results=PAGE, order_by=["attributes.start_time DESC"], page_token=token
        )
        found += page
        token = page.token
        if not token:
            break
    return [run for run in found if run.info.status == "FINISHED"]  # others are half sent


def _choose(
    client: Any, runs: list[Any], version: Version, name: str | None, like: Record | None
) -> tuple[Any, Record]:
    """The newest record of the gate that is meant."""
    of_name = [run for run in runs if run.data.tags.get("stabgate.gate") == name]
    records = [(run, record) for run in (of_name or runs)[:MOST_CANDIDATES] if (record := _record(client, run))]
    if not records:
        raise InputError(f"{version} was tested and nothing was measured: no run has a {RECORD}; measure it again")
    if like is not None:
        alike = [one for one in records if one[1].metric == like.metric]
        if not alike:
            raise InputError(f"{version} has records of {records[0][1].metric}, and {like.metric} was measured now")
        of_explainer = [one for one in alike if _explainer(one[1]) == _explainer(like)]
        if not of_explainer and not of_name:
            known = ", ".join(sorted({_explainer(one[1]) for one in alike}))
            raise InputError(f"{version} was measured with {known}, not with {_explainer(like)}: measure that too")
        records = of_explainer or alike  # of the gate's own name: what differs is for the comparison to say
        records = [one for one in records if _measured_like(one[1], like)] or records
    newest = {run.data.tags.get("stabgate.gate", ""): (run, record) for run, record in reversed(records)}
    first = records[0]
    if not of_name and any(record != first[1] for _, record in newest.values()):
        raise InputError(
            f"{version} was measured by several gates, {', '.join(map(repr, sorted(newest)))}; say which is meant with "
            f"name={min(newest)!r}"
        )
    return first


def _measured_like(record: Record, like: Record) -> bool:
    """Whether two were measured alike: the same runs, settings, explainer and rows or images."""
    mine, other = (
        (one.runs, one.settings, one.explainer, [row.hash for row in one.rows], sorted({p.hash for p in one.pairs}))
        for one in (record, like)
    )
    return bool(mine == other)


def _explainer(record: Record) -> str:
    return str(record.explainer.get("explainer", ""))


def _record(client: Any, run: Any) -> Record | None:
    """The record among a run's artifacts; None where its gate measured nothing."""
    if not any(one.path == RECORD for one in client.list_artifacts(run.info.run_id)):
        return None
    with tempfile.TemporaryDirectory(prefix="stabgate-record-") as folder:
        path = Path(client.download_artifacts(run.info.run_id, RECORD, folder))
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))


def _never(uri: str, version: Version, where: str) -> str:
    address = f"models:/{version.name}/{version.version}"
    return (
        f"{uri} is {version}, and its stability was never measured (no run at {shown(where)} has it). Measure it: let "
        f"the explainer of your gate take model={address!r} and run: pytest --stabgate-mlflow=require "
        f"--stabgate-mlflow-uri={shown(where)}"
    )
