"""Options, fixture and summary. Nothing heavy is imported here: pytest loads this file in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_stabgate.settings import DEFAULTS, PROPERTY, SETTINGS, ini_names, parse, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_stabgate.fixture import Gate

PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stabgate", "stabgate: stability of model explanations")
    for name, setting in SETTINGS.items():
        text = f"{setting.help} (default {DEFAULTS[name]})"
        group.addoption(f"--stabgate-{name}", dest=f"stabgate_{name}", default=None, metavar="N", help=text)
        parser.addini(f"stabgate_{name}", help=text, default=None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"stabgate({', '.join(SETTINGS)}): settings of one gate; every test that uses the stabgate fixture has this "
        "marker, so that -m stabgate selects the gates",
    )
    refuse_unknown(ini_names(config.inipath), "ini key", prefix="stabgate_")
    settings(config)
    config.pluginmanager.register(Summary(), "stabgate-summary")


def pytest_report_header(config: pytest.Config) -> str:
    from stabgate import __version__

    return f"stabgate: {__version__}, " + ", ".join(f"{name}={value}" for name, value in settings(config).items())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "stabgate" in getattr(item, "fixturenames", ()) and item.get_closest_marker("stabgate") is None:
            item.add_marker(pytest.mark.stabgate)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def stabgate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    """Assertions about the stability of explanations, with the settings of flags, ini file and marker."""
    from pytest_stabgate.fixture import Gate

    gate = Gate(request, settings(request.config))
    yield gate
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
    return found


class Summary:
    """Gathers what gates report and prints the table; under xdist the controller's copy gets every report."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            found = [str(value) for name, value in report.user_properties if name == PROPERTY]
            if found:
                self.records[report.nodeid] = found

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.records:
            return
        from pytest_stabgate.fixture import summary

        terminalreporter.section("stabgate")
        for line in summary(self.records):
            terminalreporter.write_line(line)
