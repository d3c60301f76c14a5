"""Options, fixture and summary. Nothing heavy is imported here: pytest loads this file in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_stabgate.completeness import Completeness
from pytest_stabgate.keeping import INI, Keeping, add_options, keeping
from pytest_stabgate.page import HTML, add_html, check_html_file
from pytest_stabgate.settings import DEFAULTS, FRESH, SETTINGS, ini_keys, parse, refuse_unknown
from pytest_stabgate.summary import CALIBRATIONS, REPORTS, Summary
from pytest_stabgate.tracking import MLFLOW, Tracking, add_mlflow, tracking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_stabgate.fixture import Gate

PASSED = pytest.StashKey[bool]()
FAILED = pytest.StashKey[bool]()
GATE = pytest.StashKey["Gate"]()
SESSION_SEED = pytest.StashKey[int]()
EVIDENCE = pytest.StashKey[str]()
KEEPING = pytest.StashKey[Keeping]()
COMPLETENESS = pytest.StashKey[Completeness]()
SUMMARY = pytest.StashKey[Summary]()
WORKER = "stabgate"  # under this name a session's own values travel to xdist workers
TRACKING = pytest.StashKey[Tracking]()
SWITCHES = (INI, HTML, *MLFLOW)  # ini keys that are no settings of a gate


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stabgate", "stabgate: stability of model explanations")
    for name, setting in SETTINGS.items():
        default = DEFAULTS[name] if DEFAULTS[name] is not None else "fail; warn with a fresh seed"
        text = f"{setting.help} (default {default})"
        group.addoption(f"--stabgate-{name}", dest=f"stabgate_{name}", default=None, metavar=setting.shown, help=text)
        parser.addini(f"stabgate_{name}", help=text, default=None)
    add_options(parser, group)
    group.addoption(
        "--stabgate-calibrate",
        dest="stabgate_calibrate",
        default=None,
        type=int,
        metavar="N",
        help="judge nothing: measure every gate N times under disjoint seeds and suggest runs, requirement and margin",
    )
    group.addoption(
        "--stabgate-json", dest="stabgate_json", default=None, metavar="FILE", help="write what was found as JSON"
    )
    add_html(parser, group)
    add_mlflow(parser, group)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"stabgate({', '.join(SETTINGS)}): settings of one gate; every test that uses the stabgate fixture has this "
        "marker, so that -m stabgate selects the gates",
    )
    refuse_unknown(ini_keys(config.inipath), "ini key", prefix="stabgate_", others=SWITCHES)
    _begin_session(config)
    config.stash[COMPLETENESS] = Completeness(config)
    config.pluginmanager.register(config.stash[COMPLETENESS], "stabgate-completeness")
    config.stash[SUMMARY] = Summary(config, config.stash[KEEPING], config.stash[COMPLETENESS], config.stash[TRACKING])
    config.pluginmanager.register(config.stash[SUMMARY], "stabgate-summary")


def _begin_session(config: pytest.Config) -> None:
    """What all processes of a session share: a fresh seed, the baselines, a folder for the arrays behind gates."""
    sent = getattr(config, "workerinput", {}).get(WORKER)
    if sent is not None:
        config.stash[SESSION_SEED], folder = sent["seed"], sent["evidence"]
    else:
        import secrets

        config.stash[SESSION_SEED], folder = secrets.randbits(31), None
    records = settings(config)["missing"] == "record"
    config.stash[KEEPING] = keeping(config, records=records)
    config.stash[TRACKING] = tracking(config)
    page = None if sent is not None else check_html_file(config)
    logs = config.stash[TRACKING].mode != "off"
    if sent is None and (config.getoption("stabgate_json") or page or logs or config.stash[KEEPING].update or records):
        import tempfile

        folder = tempfile.mkdtemp(prefix="stabgate-")
    if folder is not None:
        config.stash[EVIDENCE] = folder


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    config = node.config
    node.workerinput[WORKER] = {"seed": config.stash[SESSION_SEED], "evidence": config.stash.get(EVIDENCE, None)}


def pytest_unconfigure(config: pytest.Config) -> None:
    if TRACKING in config.stash:
        config.stash[TRACKING].end()
    folder = config.stash.get(EVIDENCE, None)
    if folder is not None and not hasattr(config, "workerinput"):
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> str:
    from stabgate import __version__

    return f"stabgate: {__version__}, " + ", ".join(f"{name}={value}" for name, value in settings(config).items())


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput[WORKER] = config.stash[COMPLETENESS].sent()
    else:
        config.stash[SUMMARY].finish(session, settings(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "stabgate" in getattr(item, "fixturenames", ()) and item.get_closest_marker("stabgate") is None:
            item.add_marker(pytest.mark.stabgate)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # What an earlier attempt of this test left (pytest-rerunfailures) is not part of this one.
    if GATE in item.stash:
        del item.stash[GATE]
    item.stash[PASSED] = item.stash[FAILED] = False
    item.user_properties[:] = [entry for entry in item.user_properties if not entry[0].startswith("stabgate.")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    if call.when in ("setup", "call"):
        item.stash[FAILED] = report.failed or (report.skipped and hasattr(report, "wasxfail"))
    gate = item.stash.get(GATE, None)
    if call.when == "teardown" and gate is not None:
        import json

        setattr(report, REPORTS, [json.dumps(one.to_json(), default=str) for one in gate.reports])
        setattr(report, CALIBRATIONS, getattr(gate, "calibrations", []))
    return report


@pytest.fixture
def stabgate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    """Assertions about the stability of explanations, with the settings of flags, ini file and marker."""
    from pytest_stabgate.fixture import Gate

    config = request.config
    given = (request, settings(config), config.stash[KEEPING], config.stash.get(EVIDENCE, None))
    try:
        if config.getoption("stabgate_calibrate") is None:
            gate = Gate(*given)
        else:
            from pytest_stabgate.calibrating import CalibratingGate

            gate = CalibratingGate(*given, repeats=config.getoption("stabgate_calibrate"))
    except pytest.UsageError as error:  # of the marker
        pytest.fail(str(error), pytrace=False)
    request.node.stash[GATE] = gate
    from pytest_stabgate.progress import progress_shown

    with progress_shown(config):
        yield gate
    if request.node.stash.get(FAILED, False):
        gate.end_failed()
    if not request.node.stash.get(PASSED, False):
        return
    if not gate.used:
        pytest.fail("the test passed without measuring anything through its stabgate fixture", pytrace=False)
    if gate.unjudged:
        why = "; ".join(reason for _, reason in gate.unjudged)
        pytest.fail(f"the test passed with a result in which nothing was measured: {why}", pytrace=False)


def settings(config: pytest.Config) -> dict[str, Any]:
    """What flags and ini file say, flags first.

    Raises:
        pytest.UsageError: a value that is not allowed.
    """
    found = dict(DEFAULTS)
    for name in SETTINGS:
        flag, ini = config.getoption(f"stabgate_{name}"), config.getini(f"stabgate_{name}")
        if flag is not None:
            found[name] = parse(name, flag, f"--stabgate-{name}")
        elif ini not in (None, ""):
            found[name] = parse(name, ini, f"ini key stabgate_{name}")
    fresh = found["seed"] == FRESH
    if fresh:
        found["seed"] = config.stash[SESSION_SEED]
    if found["inconclusive"] is None:
        found["inconclusive"] = "warn" if fresh else "fail"
    return found
