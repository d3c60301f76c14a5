"""The flags through pytest: the embedded store, xdist, what log and require do to the exit code."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from tracking_cases import free_port

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import pytest_stabgate.fixture  # noqa: F401
import stabgate.report.html
import stabgate.tracking.logging  # noqa: F401
from stabgate.mlflow_store import store_uri, use_store

mlflow = pytest.importorskip("mlflow")
pytest.importorskip("mlflow.store.tracking.sqlalchemy_store")
pytest.importorskip("mlflow.store.model_registry.sqlalchemy_store")
pytestmark = pytest.mark.filterwarnings("ignore")

GATES = """
    import numpy as np
    import stabgate as sg

    def explain(X, seed):
        return np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)

    def test_one(stabgate):
        stabgate.assert_min_k_stability(sg.explainers.Custom(explain), np.zeros((4, 3)), k=2, name="a/one")

    def test_two(stabgate):
        stabgate.assert_min_k_stability(sg.explainers.Custom(explain), np.zeros((4, 3)), k=3, name="a/two")
"""


@pytest.fixture
def gates(pytester):
    pytester.makepyfile(test_gates=GATES)
    return pytester


@pytest.mark.server
def test_the_embedded_store_is_written_by_the_controller_only(gates):
    gates.makeini("[pytest]\nstabgate_mlflow = require\nstabgate_mlflow_experiment = mine\n")
    (gates.mkdir("mlruns") / "legacy").write_text("a file store of the user's")
    result = gates.runpytest("-n", "2", "-p", "no:cacheprovider")
    assert result.ret == 0
    uri = f"sqlite:///{gates.path.resolve() / 'mlflow.db'}"
    result.stdout.fnmatch_lines([f"logged to MLflow at {uri}, experiment mine"])
    client = mlflow.MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert sorted(run.info.run_name for run in runs if run.info.run_name.startswith("a/")) == ["a/one", "a/two"]
    assert [path.name for path in (gates.path / "mlruns").iterdir()] == ["legacy"]
    assert (gates.path / "mlartifacts" / "mine").is_dir()
    [parent] = [run for run in runs if not run.info.run_name.startswith("a/")]
    assert parent.data.tags["stabgate.complete"] == "yes"
    assert {one.path for one in client.list_artifacts(parent.info.run_id, "report")} == {
        "report/report.html",
        "report/results.json",
    }
    file = client.download_artifacts(parent.info.run_id, "report/results.json", str(gates.path))
    with open(file, encoding="utf-8") as document:
        assert len(json.load(document)["gates"]) == 2


def test_a_dead_server_fails_the_build_only_where_it_is_required(gates):
    uri = f"http://127.0.0.1:{free_port()}"
    result = gates.runpytest("--stabgate-mlflow=log", f"--stabgate-mlflow-uri={uri}")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"not logged to MLflow: MLflow at {uri} does not answer*stabgate mlflow push"])
    result = gates.runpytest("--stabgate-mlflow=require", f"--stabgate-mlflow-uri={uri}")
    assert result.ret == 1
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"ERROR: not logged to MLflow: MLflow at {uri} does not answer*"])
    waiting = [path for path in (gates.path / ".stabgate" / "outbox").iterdir() if path.is_dir()]
    assert len(waiting) == 2


def test_what_a_test_does_to_the_environment_does_not_redirect_the_session(gates, monkeypatch):
    """`mlflow.set_experiment` leaves the number of an experiment of the user's store in the environment."""
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever the session leaves
    user = "import os\nos.environ |= {'MLFLOW_EXPERIMENT_ID': '77', 'MLFLOW_TRACKING_URI': 'http://127.0.0.1:9'}\n"
    gates.makepyfile(test_gates=user + dedent(GATES))
    uri = f"http://127.0.0.1:{free_port()}"
    assert gates.runpytest("--stabgate-mlflow=log", f"--stabgate-mlflow-uri={uri}").ret == 0
    [session] = (gates.path / ".stabgate" / "outbox").glob("*/session.json")
    found = json.loads(session.read_text())
    assert (found["uri"], found["experiment"]) == (uri, "stabgate")


def test_models_are_looked_up_in_the_store_of_the_session_and_afterwards_where_they_were(gates):
    before = use_store(None)
    gates.makepyfile(
        test_gates="""
        from stabgate.mlflow_store import store_uri
        def test_it():
            assert store_uri() == "http://127.0.0.1:9"
        """
    )
    assert gates.runpytest("--stabgate-mlflow-uri=http://127.0.0.1:9").ret == 0
    assert store_uri() != "http://127.0.0.1:9"
    use_store(before)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--stabgate-mlflow=on", "--stabgate-mlflow='on': it must be one of off, log, require"),
        ("--stabgate-mlflow-uri=", "--stabgate-mlflow-uri is empty"),
    ],
)
def test_wrong_usage(gates, flag, message):
    result = gates.runpytest(flag)
    assert result.ret == 4
    assert message in result.stderr.str()
