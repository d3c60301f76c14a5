from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SHARED = Path(__file__).resolve().parents[2] / "shared"


# Tests that share something slow to start (a server, a browser, a network, a site) stay in one worker of `make test`.
TOGETHER = {
    "tests/tracking/": "server",
    "tests/report/test_html_page.py": "browser",
    "tests/measure/test_fass_real.py": "networks",
    "tests/test_docs_site.py": "site",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for start, group in TOGETHER.items():
            if item.nodeid.startswith(start):
                item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Data that is laid beside a checkout, not in it."""
    if not (SHARED / "data" / "SOURCES.md").exists():
        pytest.skip("the data folder ../shared is not beside this checkout")
    return SHARED


@pytest.fixture(autouse=True)
def no_user_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test measures; what an earlier one measured must not stand in for it."""
    monkeypatch.setenv("STABGATE_CACHE", "off")


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CI pytest repeats whole messages in its short summary; what tests read must be the same everywhere."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def a_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables drop columns on a narrow terminal, and how wide this one is must not decide a test."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(autouse=True)
def own_modules_aside(request: pytest.FixtureRequest) -> Iterator[None]:
    """pytest in this process takes a file called as one of these test modules for that module."""
    if not {"pytester", "request"} & set(request.fixturenames):  # "request" can ask for it as the test runs
        yield
        return
    here = str(Path(__file__).parent)
    own = {
        name: module
        for name, module in sys.modules.items()
        if name.startswith("test_") and str(getattr(module, "__file__", "")).startswith(here)
    }
    for name in own:
        del sys.modules[name]
    yield
    sys.modules.update(own)
