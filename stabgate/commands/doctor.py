"""``stabgate doctor``: what is installed, what more there could be, and where stabgate keeps and finds things."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Any

HELP = "versions, devices, what is installed and what each extra would add"
DESCRIPTION = "Versions, devices, what is installed and what each extra would add; cache, baselines, plugin."
EPILOG = """examples:
  stabgate doctor
  stabgate doctor > doctor.txt     for a report of a problem
"""
ADDS = {
    "shap": "explainers.Shap, data in tables",
    "lime": "explainers.Lime, data in tables",
    "dice": "explainers.Dice: counterfactuals",
    "torch": "image explainers and FASS, torch models, folders of images",
    "mlflow": "models by address, tracking, baselines and history of model versions",
    "report": "the HTML page (--html, --stabgate-html, stabgate report)",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:  # noqa: ARG001
    for title, lines in (
        ("versions", _versions()),
        ("machine", _machine()),
        ("extras", _extras()),
        ("places", _places()),
        ("pytest", _plugin()),
    ):
        print(title)
        for line in lines:
            print(f"  {line}")
    return 0


def _versions() -> Iterator[str]:
    from stabgate import __version__

    yield f"stabgate {__version__}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}), {platform.platform()}"
    for name, wanted in _requirements("", default=("numpy", "scipy", "joblib", "pytest")):
        yield _state(name, wanted)


def _machine() -> Iterator[str]:
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    yield f"CPU: {usable} of {cores} cores usable" if usable != cores else f"CPU: {cores} cores"
    limits = [
        f"{n}={os.environ[n]}"
        for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        if n in os.environ
    ]
    yield f"threads: {', '.join(limits) or 'no limit in the environment'}; measuring uses one thread a process"
    if _installed("torch") is None:
        yield "GPU: unknown without torch"
        return
    try:
        import torch

        cuda = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        mps = torch.backends.mps.is_available()
    except Exception as error:  # a broken installation is what a doctor is asked about
        yield f"torch cannot be imported ({type(error).__name__}: {error})"
        return
    found = [f"cuda:{i} ({name})" for i, name in enumerate(cuda)] + (["mps"] if mps else [])
    yield f"GPU: {', '.join(found) or 'none that torch can use'}; torch uses {torch.get_num_threads()} threads"


def _extras() -> Iterator[str]:
    for extra, adds in ADDS.items():
        needed = list(_requirements(extra))
        missing = [name for name, wanted in needed if not _satisfied(name, wanted)]
        if not needed:
            yield f"[{extra}] unknown: stabgate is not installed as a package; adds {adds}"
            continue
        mark = "installed" if not missing else f"missing {', '.join(missing)}"
        yield f"[{extra}] {mark}: {adds}"
        for name, wanted in needed:
            if _installed(name) is not None:
                yield f"    {_state(name, wanted)}"
        if missing:
            yield f"    pip install 'stabgate[{extra}]'"


def _places() -> Iterator[str]:
    from stabgate.baselines.folder import project_folder
    from stabgate.baselines.store import Baselines
    from stabgate.baselines.waivers import read_waivers
    from stabgate.cache import user_cache
    from stabgate.errors import StabgateError
    from stabgate.pipeline.config import find_config, read_config

    try:
        file = find_config(None)
        config = None if file is None else read_config(file, {})
        if config is None:
            yield "configuration: no [tool.stabgate] in stabgate.toml or pyproject.toml here; stabgate init writes one"
        else:
            yield f"configuration: {file}, {len(config.gates)} gates"
    except StabgateError as error:
        yield f"configuration: {error}"
    try:
        cache = user_cache()
        if cache is None:
            yield "cache: off (STABGATE_CACHE=off)"
        else:
            entries = cache.entries()
            size = sum(entry[1] for entry in entries) / 1e6
            yield f"cache: {cache.folder}, {len(entries)} entries, {size:.1f} of at most {cache.limit / 1e6:.0f} MB"
    except StabgateError as error:
        yield f"cache: {error}"
    try:
        folder = project_folder()
        found, waivers = Baselines(folder).names(), read_waivers(folder)
        yield f"baselines: {folder}, files: {len(found)}, waivers: {len(waivers)}"
    except StabgateError as error:
        yield f"baselines: {error}"


def _plugin() -> Iterator[str]:
    points = metadata.entry_points(group="pytest11")
    point = next((one for one in points if one.name == "stabgate"), None)
    if point is None:
        yield "plugin: not registered, as stabgate is not installed as a package: pytest -p pytest_stabgate.plugin"
        return
    off = [
        name
        for name, when in (
            ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", bool(os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"))),
            ("PYTEST_ADDOPTS", "no:stabgate" in os.environ.get("PYTEST_ADDOPTS", "")),
        )
        if when
    ]
    yield f"plugin: registered as {point.value}" + (
        f", and switched off by {', '.join(off)}" if off else ", loaded by pytest"
    )
    for name, what in (("pytest-xdist", "-n"), ("pytest-rerunfailures", "--reruns"), ("pytest-timeout", "--timeout")):
        version = _installed(name)
        yield f"{name} {version} ({what})" if version else f"{name} not installed ({what})"


def _requirements(extra: str, default: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Name and allowed versions of what stabgate, or one of its extras, needs."""
    from packaging.requirements import Requirement

    try:
        texts = metadata.requires("stabgate") or []
    except metadata.PackageNotFoundError:
        yield from ((name, None) for name in default)
        return
    for text in texts:
        needed = Requirement(text)
        plain = needed.marker is None or needed.marker.evaluate({"extra": ""})
        if plain != (not extra) or (extra and needed.marker and not needed.marker.evaluate({"extra": extra})):
            continue
        yield needed.name, needed.specifier


def _state(name: str, wanted: Any) -> str:
    version = _installed(name)
    if version is None:
        return f"{name} is not installed"
    return f"{name} {version}" + ("" if _satisfied(name, wanted) else f", which is not {wanted}")


def _satisfied(name: str, wanted: Any) -> bool:
    version = _installed(name)
    return version is not None and (wanted is None or wanted.contains(version, prereleases=True))


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
