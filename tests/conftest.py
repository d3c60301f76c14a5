from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SHARED = Path(__file__).resolve().parents[2] / "shared"


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
