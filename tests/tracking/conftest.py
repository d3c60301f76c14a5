"""A real tracking server on loopback with SQLite, a registered model, and a proxy in front of it that can misbehave."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tracking_cases import Trouble, X, Y, answers, at, free_port

import stabgate as sg
from stabgate.gate import judge_min_k_stability
from stabgate.report.evidence import save_evidence
from stabgate.report.session import GateReport


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a tracking server; it is stopped afterwards."""
    pytest.importorskip("mlflow")
    home = tmp_path_factory.mktemp("server")
    uri = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", uri.rpartition(":")[2]]
    command += ["--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}", "--workers", "1"]
    command += ["--artifacts-destination", str(home / "artifacts")]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, env=environment, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not answers(uri):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail((home / "log").read_text())
            time.sleep(0.2)
        yield uri
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(3)


@pytest.fixture(scope="session")
def registry(server):
    """The server with two versions of "credit": 1 is champion, 2 is challenger."""
    from sklearn.linear_model import LogisticRegression

    with at(server) as mlflow:
        mlflow.set_experiment("training")
        for strength in (1.0, 0.1):
            with mlflow.start_run():
                model = LogisticRegression(C=strength).fit(X, Y)
                mlflow.sklearn.log_model(model, name="model", registered_model_name="credit", pip_requirements=[])
        client = mlflow.MlflowClient()
        client.set_registered_model_alias("credit", "champion", "1")
        client.set_registered_model_alias("credit", "challenger", "2")
    return server


@pytest.fixture
def client(registry):
    import mlflow

    return mlflow.MlflowClient(tracking_uri=registry)


@pytest.fixture(scope="session")
def measured(registry, tmp_path_factory):
    """A gate measured on a model by its address, as the plugin would leave it: cheap, and measured once."""
    known = {}

    def measure(address, *, name="credit/lime", k=2, samples=500):
        key = (address, name, k, samples)
        if key not in known:
            with at(registry):
                explainer = sg.explainers.Lime(address, background=X, num_samples=samples, discretize_continuous=False)
            judged = judge_min_k_stability(explainer, X[:4], k=k, share=0.5, runs=10, name=name, cache=False)
            asked = str(judged.verdict.requirement)
            gate = GateReport(name, "k-stability", asked, "test_credit.py::test", judged.verdict, judged.message)
            known[key] = save_evidence(gate, judged.result, str(tmp_path_factory.mktemp("evidence")))
        return known[key]

    return measure


@pytest.fixture
def proxy(server):
    """``(address, trouble)`` of a proxy in front of the server."""
    trouble = Trouble()

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self):
            trouble.seen += 1
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if trouble.seen > trouble.healthy:
                if trouble.status is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                self.send_response(trouble.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            upstream = http.client.HTTPConnection(server.removeprefix("http://"), timeout=30)
            headers = {n: v for n, v in self.headers.items() if n.lower() not in ("host", "connection")}
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            upstream.close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        def log_message(self, *arguments):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", trouble
    httpd.shutdown()
    httpd.server_close()
    thread.join(5)


@pytest.fixture
def silent():
    """The address of a socket that accepts and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    mlflow = sys.modules.get("mlflow")
    if mlflow is not None:  # what a test elsewhere chose goes before the environment
        mlflow.set_tracking_uri(None)
