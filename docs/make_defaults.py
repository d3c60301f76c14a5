"""Writes docs/defaults.md: every option with a default, read from the code."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import stabgate
from pytest_stabgate.settings import DEFAULTS
from stabgate import explainers
from stabgate.cache import LIMIT

PAGE = Path(__file__).with_name("defaults.md")
INTRODUCTION = """# Defaults

Every option that has a default, read from the code by `docs/make_defaults.py`; a test fails when this page and the code
differ. What an option means, its range and its source stand in the docstring of the function.

| where | option | default |
| --- | --- | --- |
"""
PROTOCOLS = ("Explainer", "TableExplainer", "ImageExplainer")


def page() -> str:
    """The whole page."""
    rows = []
    for name in stabgate.__all__:
        member = getattr(stabgate, name)
        if inspect.isfunction(member):
            rows += _options(name, member)
    for name in explainers.__all__:
        member = getattr(explainers, name)
        if name not in PROTOCOLS:
            rows += _options(f"explainers.{name}", member if inspect.isfunction(member) else member.__init__)
    rows += [f"| pytest: flag, ini key, marker | {name} | `{value!r}` |" for name, value in DEFAULTS.items()]
    rows.append(f"| environment | STABGATE_CACHE_LIMIT, bytes | `{LIMIT}` |")
    return INTRODUCTION + "\n".join(rows) + "\n"


def _options(where: str, function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [f"| {where} | {p.name} | `{p.default!r}` |" for p in parameters if p.default is not p.empty]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
