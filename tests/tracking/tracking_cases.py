"""What the tests of tracking share: data, gates and sessions to log, and small helpers."""

from __future__ import annotations

import http.client
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

import stabgate as sg
from stabgate.report.session import SessionReport

X = pd.DataFrame(np.random.default_rng(0).random((40, 3)), columns=["income", "debt", "age"])
Y = (X["income"] > X["debt"]).astype(int)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def answers(uri: str) -> bool:
    try:
        connection = http.client.HTTPConnection(uri.removeprefix("http://"), timeout=2)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


@contextmanager
def at(uri):
    """MLflow's own tracking URI, for what users do with it; the experiment that they choose is forgotten with it."""
    import mlflow
    from mlflow.tracking import fluent
    from mlflow.tracking._tracking_service import utils

    before = utils._tracking_uri  # None where nothing was set: asking for it would give MLflow's default
    chosen, variable = fluent._active_experiment_id, os.environ.get("MLFLOW_EXPERIMENT_ID")
    mlflow.set_tracking_uri(uri)
    try:
        yield mlflow
    finally:
        mlflow.set_tracking_uri(before)
        fluent._active_experiment_id = chosen
        os.environ.pop("MLFLOW_EXPERIMENT_ID", None)
        if variable is not None:
            os.environ["MLFLOW_EXPERIMENT_ID"] = variable


def session_of(*gates, minute=0, complete=True, **environment):
    return SessionReport(
        gates=gates,
        complete=complete,
        incomplete_because="" if complete else "some were left out",
        created=datetime(2026, 1, 2, 3, minute, tzinfo=UTC).isoformat(),
        settings={"runs": 8, "seed": 0},
        environment={"stabgate": sg.__version__, "commit": "c0ffee", "job": "https://ci.example/7", **environment},
    )


def renamed(gate, name, outcome=None):
    """The same gate without its arrays, under another name, or with another outcome."""
    verdict = gate.verdict if outcome is None else replace(gate.verdict, outcome=outcome)
    return replace(gate, name=name, verdict=verdict, evidence=None)


@dataclass
class Trouble:
    """What a proxy does to requests: the first `healthy` are passed on, then each gets `status`, or its line is cut."""

    healthy: int = 10**9
    status: int | None = None
    seen: int = 0


def folders(outbox: Path) -> list[str]:
    return sorted(path.name for path in outbox.iterdir() if path.name != ".gitignore") if outbox.exists() else []
