"""Logging a session to MLflow: the flags, and the one call that is made when it ends, in the controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stabgate.report.session import SessionReport
    from stabgate.tracking import Logged

MODES = ("off", "log", "require")
OPTIONS = {
    "mlflow": "log the session to MLflow: off, log (what cannot be sent waits) or require (then the build fails)",
    "mlflow-uri": "tracking URI (default: MLFLOW_TRACKING_URI, or mlflow.db in the root folder)",
    "mlflow-experiment": "name of the experiment (default: MLFLOW_EXPERIMENT_NAME, or stabgate)",
}
MLFLOW = tuple(name.replace("-", "_") for name in OPTIONS)  # ini keys, behind stabgate_
PAGE = "report.html"


@dataclass(frozen=True)
class Tracking:
    """What a session does with MLflow.

    Store and experiment are settled before any test runs: `mlflow.set_experiment` and the like in a test change the
    environment, and must not redirect a session.

    Attributes:
        uri: that flag or ini file name, where models are looked up too.
        store, experiment: where the session is logged; empty where it is not.
        before: the store that models were looked up in before this session named its own.
    """

    mode: str
    uri: str | None
    store: str = ""
    experiment: str = ""
    before: str | None = None

    def log(self, report: SessionReport, config: pytest.Config) -> Logged | None:
        """Log a session that has gates; None where nothing is to be logged."""
        if self.mode == "off" or not report.gates:
            return None
        from stabgate.tracking import log_session

        return log_session(report, config.rootpath, uri=self.store, experiment=self.experiment, extra=_page(report))

    def end(self) -> None:
        """Look models up where they were before."""
        if self.uri is not None:
            from stabgate.mlflow_store import use_store

            use_store(self.before)


def _page(report: SessionReport) -> dict[str, str]:
    """The HTML report by its file name; nothing where what it is made with is not installed."""
    from stabgate.errors import MissingDependencyError
    from stabgate.report.html import render_html

    try:
        return {PAGE: render_html(report)}
    except MissingDependencyError:
        return {}


def add_mlflow(parser: pytest.Parser, group: pytest.OptionGroup) -> None:
    """Flags and ini keys."""
    for name, text in OPTIONS.items():
        key = f"stabgate_{name.replace('-', '_')}"
        metavar = {"mlflow": "|".join(MODES), "mlflow-uri": "URI"}.get(name, "NAME")
        group.addoption(f"--stabgate-{name}", dest=key, default=None, metavar=metavar, help=text)
        parser.addini(key, help=text, default=None)


def tracking(config: pytest.Config) -> Tracking:
    """What flags and ini file say, flags first; from now on models are looked up in the store that they name.

    Raises:
        pytest.UsageError: an unknown mode, an empty name, or mlflow is not installed and something is to be logged.
    """
    found: dict[str, str | None] = {}
    for name in OPTIONS:
        key = f"stabgate_{name.replace('-', '_')}"
        flag, ini = config.getoption(key), config.getini(key)
        if flag is not None and not flag.strip():
            raise pytest.UsageError(f"--stabgate-{name} is empty")
        found[name] = flag or ini or None
        if name == "mlflow" and found[name] not in (None, *MODES):
            where = "--stabgate-mlflow" if flag else "ini key stabgate_mlflow"
            raise pytest.UsageError(f"{where}={found[name]!r}: it must be one of {', '.join(MODES)}")
        if name == "mlflow-uri" and found[name]:
            from stabgate.mlflow_store import absolute

            found[name] = absolute(str(found[name]), config.invocation_params.dir if flag else config.rootpath)
    mode, uri, before, store, experiment = found["mlflow"] or "off", found["mlflow-uri"], None, "", ""
    if mode != "off":
        from importlib.util import find_spec

        if find_spec("mlflow") is None:
            raise pytest.UsageError(
                f"--stabgate-mlflow={mode} needs mlflow, which is not installed: pip install 'stabgate[mlflow]'"
            )
        from stabgate.tracking.logging import chosen_experiment, chosen_store

        store, experiment = chosen_store(uri, config.rootpath), chosen_experiment(found["mlflow-experiment"])
    if uri is not None:
        from stabgate.mlflow_store import use_store

        before = use_store(uri)
    return Tracking(mode, uri, store, experiment, before)
