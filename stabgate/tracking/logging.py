"""At the end of a run: the session goes into the outbox, and out of it by a process of its own that can be given up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stabgate.errors import InputError, TrackingError
from stabgate.files import locked
from stabgate.mlflow_store import absolute, reason, shown, sign_of_life
from stabgate.report.session import SessionReport
from stabgate.tracking.outbox import OUTBOX, Entry, lock_of, remove, write

BASE_SECONDS, SECONDS_PER_GATE = 90.0, 3.0  # for sending; what is left then waits
EXPERIMENT = "stabgate"


@dataclass(frozen=True)
class Logged:
    """What became of a session.

    Attributes:
        sent: all of it is in the store.
        message: one line: where it is, or why it is not and what to do.
    """

    sent: bool
    message: str


def log_session(
    session: SessionReport,
    root: str | os.PathLike[str],
    *,
    uri: str | None = None,
    experiment: str | None = None,
    extra: dict[str, str] | None = None,
) -> Logged:
    """Log a session with the evidence of its gates; never raises for what the store does, and loses nothing.

    Args:
        root: folder of the project: its outbox is `.stabgate/outbox`.
        uri: the store; None is the environment's (``MLFLOW_TRACKING_URI``), or ``mlflow.db`` in `root`.
        experiment: its name; None is the environment's (``MLFLOW_EXPERIMENT_NAME`` or ``_ID``), or "stabgate".
        extra: further texts for the session's report folder, by file name.
    """
    where, wanted = chosen_store(uri, root), chosen_experiment(experiment)
    home = Path(root) / OUTBOX
    entry, problems = None, []
    for outbox in (home, Path(tempfile.gettempdir()) / "stabgate-outbox"):
        # A project folder that is read-only or full must not cost the session.
        try:
            entry = write(session, outbox, uri=where, experiment=wanted, extra=extra or {})
            break
        except (OSError, InputError) as error:
            problems.append(reason(error))
    if entry is None:
        return Logged(False, f"not logged to MLflow: the outbox cannot be written ({'; '.join(problems)})")
    problem, notes = _send_apart(entry, root)
    if not problem:
        said = "".join(f"; {note}" for note in notes)
        return Logged(True, f"logged to MLflow at {shown(where)}, experiment {entry.experiment}{said}")
    command = "stabgate mlflow push" + ("" if entry.folder.parent == home else f" {entry.folder.parent}")
    return Logged(False, f"not logged to MLflow: {problem}. It waits in {entry.folder}; send it with: {command}")


def chosen_store(uri: str | None, root: str | os.PathLike[str]) -> str:
    """The store that a session is logged to, as an address that means the same from any folder."""
    found = uri or os.environ.get("MLFLOW_TRACKING_URI")
    return absolute(found) if found else f"sqlite:///{Path(root).resolve() / 'mlflow.db'}"


def chosen_experiment(experiment: str | None) -> str:
    """The experiment that a session is logged to."""
    number = os.environ.get("MLFLOW_EXPERIMENT_ID")
    return experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or (f"id:{number}" if number else EXPERIMENT)


def _send_apart(entry: Entry, root: str | os.PathLike[str]) -> tuple[str, list[str]]:
    """Send an entry in another process; returns why it still waits, or "", and what the reader should know."""
    try:
        sign_of_life(entry.uri)
    except TrackingError as error:
        return str(error), []
    with locked(lock_of(entry.folder)):
        problem, notes = _run(entry, root)
        if not problem:
            remove(entry)
    return problem, notes


def _run(entry: Entry, root: str | os.PathLike[str]) -> tuple[str, list[str]]:
    limit = BASE_SECONDS + SECONDS_PER_GATE * len(entry.gates)
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "ignore"}
    hidden = ("MLFLOW_RUN_ID", "COV_CORE_SOURCE", "COVERAGE_PROCESS_START")
    environment = {n: v for n, v in os.environ.items() if n not in hidden} | quiet
    command = [sys.executable, "-P", "-m", "stabgate.tracking.send", str(entry.folder)]
    try:
        found = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
            env=environment,
            cwd=root,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"MLflow at {shown(entry.uri)} took longer than {limit:g} s", []
    except OSError as error:
        return f"no process could be started ({reason(error)})", []
    lines = found.stdout.splitlines()
    if found.returncode == 0 and lines[-1:] == ["sent"]:
        return "", [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]
    failed = [line.removeprefix("failed: ") for line in lines if line.startswith("failed: ")]
    if failed:
        return failed[-1], []
    last = (found.stderr.strip().splitlines() or ["no reason given"])[-1]
    return f"the process that sends ended with {found.returncode}: {last}", []
