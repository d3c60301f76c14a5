"""Every measured version of a registered model, newest first, and a plot over versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError
from stabgate.logged_models import find_version, parse_registered
from stabgate.mlflow_store import connected, is_missing, store_uri
from stabgate.tracking.described import REGRESSION
from stabgate.tracking.pictures import DPI, figure
from stabgate.tracking.registry import runs_of_model

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "version",
    "aliases",
    "gate",
    "kind",
    "verdict",
    "k",
    "share",
    "fass",
    "retention",
    "low",
    "high",
    "runs",
    "explainer",
    "requirement",
    "settings",
    "comparable",
    "differs",
    "when",
    "session",
    "run",
)
# Parameters that values depend on: where they differ, two records are not comparable.
DECIDING = ("metric", "runs", "explainer", "setting.", "explainer_setting.", "background.", "groups.", "target")
MAIN = {"k-stability": "share", "FASS": "fass"}


def history(uri: str, tracking_uri: str | None = None) -> pd.DataFrame:
    """Every measurement of a registered model that was logged.

    Args:
        uri: "models:/credit" for every version; "models:/credit/7" or "models:/credit@champion" for one.
        tracking_uri: the store; None is the session's, or MLflow's own.

    Returns:
        One row per version, session and gate, newest first: version, aliases (as they are now), gate, kind
        ("k-stability", "FASS", or "regression": a comparison with a baseline), verdict, k (mean over rows), share (of
        rows that meet the requirement), fass, retention, low and high (95 % interval of share or fass), runs,
        explainer, requirement, settings, when, session, run (its id in MLflow). `comparable` is False where settings,
        explained rows or the explainer differ from the newest record of the same gate; `differs` says which.

    Raises:
        InputError: no such model or version, or it was never measured.
        TrackingError: the store does not answer.
    """
    import pandas as pd

    name, alias, version = parse_registered(uri)
    with connected(store_uri(tracking_uri)) as client:
        wanted = find_version(client, uri).version if alias or version else None
        try:
            model = client.get_registered_model(name)
        except Exception as error:
            if is_missing(error):
                raise InputError(f"{uri}: there is no registered model {name!r}") from error
            raise
        runs = runs_of_model(client, name, wanted)
    if not runs:
        raise InputError(
            f"{uri} was never measured: no run has it. Give an explainer model='models:/{name}/VERSION' in a gate and "
            "run pytest --stabgate-mlflow=log"
        )
    aliases: dict[str, list[str]] = {}
    for one, number in model.aliases.items():
        aliases.setdefault(str(number), []).append(one)
    newest: dict[tuple[str, str], Any] = {}
    for run in runs:
        newest.setdefault(_gate(run), run)
    rows = [_row(run, aliases, newest[_gate(run)]) for run in runs]
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS))


def _gate(run: Any) -> tuple[str, str]:
    """Name and kind: one name may stand for a gate and for its comparison with a baseline."""
    return run.data.tags.get("stabgate.gate", ""), run.data.tags.get("stabgate.kind", "")


def _row(run: Any, aliases: Mapping[str, list[str]], newest: Any) -> dict[str, Any]:
    tags, params, metrics = run.data.tags, run.data.params, run.data.metrics
    version = tags.get("stabgate.model.version", "")
    main = MAIN.get(tags.get("stabgate.kind", ""), "share")
    differs = _differences(run, newest)
    return {
        "version": int(version) if version.isdigit() else version,
        "aliases": ", ".join(sorted(aliases.get(version, []))),
        "gate": tags.get("stabgate.gate", ""),
        "kind": tags.get("stabgate.kind", ""),
        "verdict": tags.get("stabgate.verdict", ""),
        "k": metrics.get("mean_k"),
        "share": metrics.get("share"),
        "fass": metrics.get("fass"),
        "retention": metrics.get("retention"),
        "low": metrics.get(f"{main}_low"),
        "high": metrics.get(f"{main}_high"),
        "runs": int(params["runs"]) if params.get("runs", "").isdigit() else None,
        "explainer": params.get("explainer", ""),
        "requirement": tags.get("stabgate.requirement", ""),
        "settings": ", ".join(f"{n}={v}" for n, v in sorted(_deciding(run).items()) if n not in ("metric", "runs")),
        "comparable": not differs,
        "differs": ", ".join(differs),
        "when": datetime.fromtimestamp(run.info.start_time / 1000, UTC),
        "session": tags.get("stabgate.session", ""),
        "run": run.info.run_id,
    }


def _deciding(run: Any) -> dict[str, str]:
    found = {n: v for n, v in run.data.params.items() if n.startswith(DECIDING) and n != "setting.rows"}
    data = [one.dataset.digest for one in run.inputs.dataset_inputs] if run.inputs else []
    return {**found, "data": data[0] if data else ""}


def _differences(run: Any, newest: Any) -> list[str]:
    """What of a run is another than in the newest one of its gate, in words; a run without data has nothing to say."""
    mine, other = _deciding(run), _deciding(newest)
    if not mine["data"] or not other["data"]:
        mine.pop("data")
        other.pop("data")
    return [
        f"{name} {mine.get(name, '-')} (newest {other.get(name, '-')})"
        for name in sorted({*mine, *other})
        if mine.get(name) != other.get(name)
    ]


def plot_history(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """A PNG (or PDF, SVG, by the name) of each gate's value with its interval over versions.

    Records that are not comparable with the newest of their gate are drawn hollow and joined to nothing. Gates of k are
    above, with the mean k; gates of FASS below.

    Args:
        frame: as `history` returned it.

    Raises:
        InputError: no record has a value, or the file cannot be written.
    """
    parts = [(name, label) for name, label in (("k", "mean k"), ("fass", "FASS")) if frame[name].notna().any()]
    if not parts:
        raise InputError("no record has a value to plot: nothing was measured")
    numbers = sorted(frame["version"].unique())
    places = {version: i for i, version in enumerate(numbers)}
    found, axes = figure("Stability over versions", "version", parts[0][1])
    panels = [axes]
    if len(parts) > 1:
        found.clear()
        panels = list(found.subplots(len(parts), 1, sharex=True))
        panels[0].set_title("Stability over versions")
        panels[-1].set_xlabel("version")
    for (column, label), panel in zip(parts, panels, strict=True):
        panel.set_ylabel(label)
        for j, (gate, rows) in enumerate(frame[frame[column].notna()].groupby(["gate", "kind"], sort=True)):
            _line(panel, _named(*map(str, gate)), rows.sort_values(["version", "when"]), column, places, f"C{j % 10}")
        panel.set_xticks(range(len(numbers)), [str(one) for one in numbers])
        panel.legend(fontsize="small")
    try:
        found.savefig(path, dpi=DPI)
    except (OSError, ValueError) as error:
        raise InputError(f"{os.fspath(path)}: cannot be written ({error})") from error


def _named(gate: str, kind: str) -> str:
    return f"{gate} (against a baseline)" if kind == REGRESSION else gate


def _line(panel: Any, gate: str, rows: pd.DataFrame, column: str, places: Mapping[Any, int], colour: str) -> None:
    """One gate: the newest record of each version joined, every other one as a point."""
    same = rows[rows["comparable"]].drop_duplicates("version", keep="last")
    at = [places[version] for version in same["version"]]
    panel.plot(at, same[column], marker="o", color=colour, label=gate)
    if column == "fass" and same["low"].notna().all():
        panel.fill_between(at, same["low"], same["high"], color=colour, alpha=0.2)
    other = rows[~rows["comparable"]]
    if len(other):
        label = f"{gate}: other settings, not comparable"
        hollow = [places[version] for version in other["version"]]
        panel.scatter(hollow, other[column], facecolors="none", edgecolors=colour, label=label)
