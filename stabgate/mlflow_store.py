"""An MLflow store: which one is meant, whether it answers, and a client whose waiting is bounded.

MLflow retries a dead server for minutes. Here a store is asked for a sign of life first, every request has a short
timeout and one retry, and what that takes (environment variables) is put back afterwards. Nothing global of MLflow is
set: neither tracking URI nor active run.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from stabgate.errors import MissingDependencyError, StabgateError, TrackingError

if TYPE_CHECKING:
    from mlflow import MlflowClient

ANSWER_WITHIN = 3.0  # seconds that a server has for its first answer
GIVE_UP_AFTER = 8.0  # seconds for the sign of life in all: name look-up and every address of the server
CREATED_WITHIN = 60.0  # seconds that another process may take to create the tables of a fresh SQLite store
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
# Of the first request: a server that gives a sign of life and then nothing is as dead as another.
FIRST = {**PATIENCE, "MLFLOW_HTTP_REQUEST_TIMEOUT": "4", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
LONGEST_REASON = 300  # characters
# What is longer loses its middle: databases put the cause near the beginning, and requests puts it last.
LONGEST_END = 100
CUT = " ... "

_session: list[str] = []  # the store that a test session was told to use


def use_store(uri: str | None) -> str | None:
    """Let this process look in another store than MLflow's own choice; returns the one before."""
    before = _session.pop() if _session else None
    if uri:
        _session.append(uri)
    return before


def store_uri(uri: str | None = None) -> str:
    """The store that is meant: `uri`, the one a test session was given, or MLflow's own (environment, default)."""
    chosen = uri or (_session[0] if _session else None)
    return absolute(chosen if chosen else str(require_mlflow().get_tracking_uri()))


def absolute(uri: str, folder: str | os.PathLike[str] = ".") -> str:
    """`uri` with a relative SQLite file or folder made absolute, so that it means the same from any folder."""
    if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
        path = uri.removeprefix("sqlite:///")
        fixed = Path(path).is_absolute() or path.startswith((":memory:", "file:"))
        return uri if fixed else f"sqlite:///{Path(folder).resolve() / path}"
    local = "://" not in uri and not uri.startswith(("file:", "databricks", "uc:"))
    return (Path(folder).resolve() / uri).as_uri() if local else uri


def shown(uri: str) -> str:
    """`uri` without a password."""
    parts = urlsplit(uri)
    if parts.password is None and parts.username is None:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def require_mlflow() -> Any:
    """The package.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import mlflow
    except ImportError as error:
        raise MissingDependencyError(
            f"mlflow is not installed ({error}); install it with: pip install 'stabgate[mlflow]'"
        ) from error
    return mlflow


@contextmanager
def connected(uri: str) -> Iterator[MlflowClient]:
    """A client of the store, whose tables are there; within the block no request waits long.

    Raises:
        TrackingError: the store does not answer, refuses or fails, in the block too; the message names it.
        MissingDependencyError: mlflow is not installed.
    """
    sign_of_life(uri)
    mlflow = require_mlflow()
    with environment(PATIENCE), _named(uri):
        with _first_of(uri), environment(FIRST):
            client = mlflow.MlflowClient(tracking_uri=uri)
            client.search_experiments(max_results=1)
        yield client


def sign_of_life(uri: str) -> None:
    """Ask a server for any answer at all, within `GIVE_UP_AFTER` seconds; other stores are not asked.

    Raises:
        TrackingError: none came.
    """
    if not uri.startswith(("http://", "https://")):
        return
    found: list[str] = [f"no answer within {GIVE_UP_AFTER:g} s"]

    def ask() -> None:
        found[0] = _answer(uri)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(GIVE_UP_AFTER)
    if found[0]:
        raise TrackingError(f"MLflow at {shown(uri)} does not answer: {found[0]}")


def _answer(uri: str) -> str:
    """Why nothing answers, or "": an error is an answer too, and so is a certificate that only MLflow may accept."""
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    parts = urlsplit(uri)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
    try:
        with urllib.request.urlopen(f"{bare.rstrip('/')}/health", timeout=ANSWER_WITHIN):
            return ""
    except urllib.error.HTTPError:
        return ""
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            return ""
        return f"no answer within {ANSWER_WITHIN:g} s" if isinstance(error.reason, TimeoutError) else str(error.reason)
    except TimeoutError:
        return f"no answer within {ANSWER_WITHIN:g} s"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the length of the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _named(uri: str) -> Iterator[None]:
    try:
        yield
    except StabgateError:
        raise
    except Exception as error:
        raise TrackingError(f"MLflow at {shown(uri)}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """One line, not too long: clients put whole pages into their messages."""
    text = " ".join(str(error).split()) or type(error).__name__
    start = LONGEST_REASON - len(CUT) - LONGEST_END
    return text if len(text) <= LONGEST_REASON else f"{text[:start]}{CUT}{text[-LONGEST_END:]}"


@contextmanager
def _first_of(uri: str) -> Iterator[None]:
    """One process at a time: the tables of a fresh SQLite store are not created by two at once."""
    if not uri.startswith("sqlite:"):
        yield
        return
    import hashlib
    import tempfile

    from stabgate.files import locked

    whose = f"{uri} {getattr(os, 'getuid', str)()}"
    name = hashlib.sha256(whose.encode()).hexdigest()[:16]
    with locked(Path(tempfile.gettempdir()) / f"stabgate-{name}.lock", CREATED_WITHIN), _quiet():
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the lines that creating tables logs."""
    import logging

    loggers = [logging.getLogger(name) for name in ("mlflow.store.db.utils", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def is_missing(error: BaseException) -> bool:
    """Whether an MLflow error says that something is not there (an alias that is not is "invalid" to it)."""
    code = getattr(error, "error_code", "")
    return code == "RESOURCE_DOES_NOT_EXIST" or (code == "INVALID_PARAMETER_VALUE" and "not found" in str(error))


def loaded() -> bool:
    """Whether this process has MLflow loaded already."""
    return "mlflow" in sys.modules
