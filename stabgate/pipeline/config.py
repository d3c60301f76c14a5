"""The tables ``[tool.stabgate]`` and ``[tool.stabgate.gates]`` of a TOML file, checked key by key before any work."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stabgate.errors import InputError

TEXT, INTEGER, NUMBER, TRUTH, LIST, TABLE = "a text", "a whole number", "a number", "true or false", "a list", "a table"
TYPES: dict[str, tuple[type, ...]] = {
    TEXT: (str,),
    INTEGER: (int,),
    NUMBER: (int, float),
    TRUTH: (bool,),
    LIST: (list,),
    TABLE: (dict,),
}
FILES = ("stabgate.toml", "pyproject.toml")  # where a configuration is looked for, in this order
SHARED = "pyproject.toml"  # the file whose other tables belong to others
NEAR = 0.85  # how like "stabgate" a table of others must be to be taken for a slip
TABLES = {"stabgate": "tool.stabgate", "tool": "tool.stabgate", "gates": 'tool.stabgate.gates."name"'}


class Key(NamedTuple):
    """One key of a gate: which kinds of value it takes, and what it says."""

    kinds: tuple[str, ...]
    help: str
    of: str = ""  # "k-stability" or "FASS" where only such gates have it


K, FASS = "k-stability", "FASS"
INPUTS = {
    "model": Key((TEXT,), "module:object, module:factory, or an MLflow address such as models:/credit@champion"),
    "data": Key((TEXT,), "CSV, Parquet or npz file, a folder of images, or module:object or factory"),
    "array": Key((TEXT,), "which array of an npz file; the only one, or X, by default"),
    "drop": Key((TEXT, LIST), "columns of the file that are no features, such as the label"),
    "index": Key((TEXT,), "column whose values are the ids of the rows"),
    "size": Key((INTEGER,), "side in pixels to which images of a folder are resized"),
    "background": Key((TEXT,), "as data; the data itself by default"),
    "background_rows": Key((INTEGER,), "size of a seeded sample of the background"),
    "explainer": Key((TEXT, TABLE), "its name or module:factory, or a table of its name and its settings"),
}
REQUIRED = {
    "k": Key((INTEGER,), "leading features that must keep their order", K),
    "share": Key((NUMBER,), "share of the rows that must (1 by default)", K),
    "require": Key((TEXT,), "order, membership or both", K),
    "score": Key((NUMBER,), "least FASS", FASS),
    "geometric": Key((NUMBER,), "least FASS within that family", FASS),
    "photometric": Key((NUMBER,), "least FASS within that family", FASS),
    "compression": Key((NUMBER,), "least FASS within that family", FASS),
    "above_floor": Key((NUMBER,), "least way from the floor to 1", FASS),
    "min_retention": Key((NUMBER,), "share of the pairs of each perturbation that must be retained", FASS),
    "min_pairs": Key((INTEGER,), "retained pairs of each perturbation that must be there", FASS),
    "max_drop": Key((NUMBER,), "by how much the value may fall below the baseline"),
    "baseline": Key((TEXT,), "name of the baseline; the name of the gate by default"),
}
MEASURED = {
    "target": Key((TEXT, INTEGER, TRUTH, NUMBER), "class that is explained"),
    "rows": Key((INTEGER, LIST, TEXT), 'size of a seeded sample, ids, or "sample"', K),
    "groups": Key((TABLE,), "columns that are ranked as one feature, by its name", K),
    "rule": Key((TEXT,), "all-pairs or consecutive", K),
    "value": Key((TEXT,), "magnitude, signed, adverse, favourable or absmean", K),
    "density": Key((TEXT,), "kde or mixed", K),
    "metric": Key((TEXT,), "distance between distributions", K),
    "bandwidth": Key((TEXT, NUMBER, LIST), "of the densities", K),
    "bias_corrected": Key((TRUTH,), "scale each density to the variance of its sample", K),
    "n_jobs": Key((INTEGER,), "worker processes", K),
    "perturbations": Key((TEXT, LIST), "published, mild, or kinds such as rotation", FASS),
    "protocol": Key((TEXT,), "aligned or published", FASS),
    "invariance": Key((TEXT, LIST), 'when a prediction counts as kept: "label", ["output", 0.1], ...', FASS),
    "redraw": Key((INTEGER,), "retained pairs of each random perturbation to reach", FASS),
    "references": Key((INTEGER,), "images behind floor and re-seed reference", FASS),
    "device": Key((TEXT,), "auto, cpu, cuda, ...", FASS),
}
OUTPUTS = {
    "json": Key((TEXT,), "write what was found as JSON"),
    "html": Key((TEXT,), "write what was found as one HTML page"),
    "markdown": Key((TEXT,), "write what was found as Markdown"),
    "junit": Key((TEXT,), "write what was found as a JUnit file"),
}
PLACES = {"baselines": Key((TEXT,), "folder of the baselines and waivers")}
GATE_KEYS = {**INPUTS, **REQUIRED, **MEASURED}
SETTINGS_ON_THE_COMMAND_LINE = ("runs", "seed", "threshold", "early", "budget", "inconclusive")  # the plugin's
COMMON = {name: Key((TEXT, INTEGER, NUMBER, TRUTH), "") for name in SETTINGS_ON_THE_COMMAND_LINE}
KEYS = {**COMMON, **GATE_KEYS, **OUTPUTS, **PLACES}  # of [tool.stabgate] and of the command line


@dataclass(frozen=True)
class GateConfig:
    """One gate.

    Attributes:
        name: of the gate; empty where the explainer's name is to serve.
        given: its keys, those of the top table where it has none of its own.
        settings: runs, seed, threshold, early, budget, inconclusive.
        where: how messages call it; empty for a gate that flags describe.
    """

    name: str
    given: Mapping[str, Any]
    settings: Mapping[str, Any]
    where: str

    @property
    def kind(self) -> str:
        """ "k-stability" or "FASS"."""
        return FASS if "score" in self.given or _of(self.given, FASS) else K


@dataclass(frozen=True)
class Config:
    """A run: its gates, the folder that relative paths and modules are looked up in, and what is written.

    `flags` are those that were given, as words of a command line, without names and outputs.
    """

    gates: tuple[GateConfig, ...]
    folder: Path
    source: str
    settings: Mapping[str, Any]
    outputs: Mapping[str, str] = field(default_factory=dict)
    baselines: str = ""
    flags: tuple[str, ...] = ()


def find_config(path: str | None) -> Path | None:
    """The file that holds the configuration: the one that is named, or the first of `FILES` that has one.

    Raises:
        InputError: the one that is named is not there.
    """
    if path is not None:
        if not Path(path).is_file():
            raise InputError(f"--config={path}: there is no such file; stabgate init writes one")
        return Path(path)
    for name in FILES:
        file = Path(name)
        if file.is_file() and (name != SHARED or "stabgate" in _tool(_toml(file), name)):
            return file
    return None


def read_config(file: Path | None, flags: Mapping[str, Any]) -> Config:
    """The configuration in `file` (None: flags alone), checked.

    Args:
        flags: what the command line says, by key; they go before the top table, the table of a gate before them.

    Raises:
        InputError: it is no TOML, has an unknown key, a value of another type, or lacks something; the message names
            file and key, what was found and what is nearest.
    """
    source = "command line" if file is None else str(file)
    top = {} if file is None else _tool(_toml(file), source).get("stabgate", {})
    if not isinstance(top, dict):
        raise InputError(f"{source}: tool.stabgate must be a table, found {_found(top)}")
    if file is not None and not top and not flags:
        raise InputError(f"{source}: has no table [tool.stabgate]; stabgate init writes an example")
    if file is None and not set(flags) & set(GATE_KEYS):
        raise InputError(f"{_nothing_found()}; or flags describe a gate: --model, --data, --explainer, -k, ...")
    check = _Checker(source)
    check.keys(top, KEYS, "tool.stabgate", others=("gates", "name"))
    for name, value in flags.items():
        _Checker("command line").value(f"--{name}", value, KEYS.get(name))
    tables = _gate_tables(top.get("gates"), source)
    if "name" in flags:
        if any(name == flags["name"] for name, _, _ in tables):
            raise InputError(
                f"--name={flags['name']}: {source} has a gate of that name; run it with: stabgate run {flags['name']}"
            )
        tables = [(str(flags["name"]), {}, "command line")]
    _check_reach(flags, tables)
    above = {**{n: v for n, v in top.items() if n not in ("gates", "name")}, **flags}
    places = {**dict.fromkeys(top, f"{source}: tool.stabgate: "), **dict.fromkeys(flags, "--")}
    if not tables:
        tables = [(str(flags.get("name") or top.get("name") or ""), {}, "tool.stabgate" if file else "command line")]
    gates = []
    for name, table, where in tables:
        check.keys(table, {**COMMON, **GATE_KEYS}, where, others=("name",))
        both = {**above, **{n: v for n, v in table.items() if n != "name"}}
        given = {n: v for n, v in both.items() if n in GATE_KEYS}
        place = "" if where == "command line" else f"{source}: {where}: "
        gates.append(GateConfig(name, given, _settings(both, {**places, **dict.fromkeys(table, place)}), place))
    for gate in gates:
        _check_gate(gate, "" if file is not None else f"; {_nothing_found()}")
    _check_names(gates, source)
    return Config(
        tuple(gates),
        Path.cwd() if file is None else file.resolve().parent,
        source,
        _settings(above, places),
        {name: above[name] for name in OUTPUTS if name in above},
        str(above.get("baselines", "")),
    )


def _check_reach(flags: Mapping[str, Any], tables: list[tuple[str, dict[str, Any], str]]) -> None:
    """A flag that no gate follows must not look as if it had been followed."""
    for name in flags:
        if tables and name in {*GATE_KEYS, *SETTINGS_ON_THE_COMMAND_LINE} and all(name in t for _, t, _ in tables):
            flag = "-k" if name == "k" else f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} reaches no gate: each has its own {name} in its table, which goes before flags")


def _settings(given: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """The plugin's settings, with the plugin's checks and defaults; `places` says where each key was found."""
    import pytest

    from pytest_stabgate.settings import DEFAULTS, FRESH, parse

    found = dict(DEFAULTS)
    for name in SETTINGS_ON_THE_COMMAND_LINE:
        if name in given:
            try:
                found[name] = parse(name, given[name], f"{places[name]}{name}")
            except pytest.UsageError as error:
                raise InputError(str(error)) from error
    if found["inconclusive"] is None:
        found["inconclusive"] = "warn" if found["seed"] == FRESH else "fail"
    return found


def _check_gate(gate: GateConfig, hint: str) -> None:
    """`hint` is what to do beside giving what is missing."""
    given = gate.given
    for name in ("explainer", "data"):
        if name not in given:
            raise InputError(f"{gate.where}{name} is missing: {INPUTS[name].help}{hint}")
    if not {"k", "score", "max_drop"} & set(given):
        raise InputError(
            f"{gate.where}nothing is required: give k (the order of the first features), score (FASS of images) or "
            "max_drop (against a baseline)"
        )
    other = _of(given, K) if gate.kind == FASS else []
    if other:
        raise InputError(
            f"{gate.where}{other[0]} is a key of k-stability and {_of(given, FASS)[0]} one of FASS: two gates"
        )
    if "baseline" in given and "max_drop" not in given:
        raise InputError(f"{gate.where}baseline without max_drop: say by how much the value may fall")
    if "max_drop" in given and not (gate.name or "baseline" in given):
        raise InputError(f"{gate.where}max_drop needs the name of a baseline: give the gate a name, or baseline")
    explainer = given["explainer"]
    if isinstance(explainer, dict) and not isinstance(explainer.get("name"), str):
        raise InputError(f'{gate.where}explainer has no name: explainer = {{name = "lime", num_samples = 1000}}')


def _nothing_found() -> str:
    return (
        f"no configuration was found in {Path.cwd()}: it has no {FILES[0]}, and no {SHARED} with a table "
        "[tool.stabgate]; stabgate init writes one, --config names one elsewhere"
    )


def _check_names(gates: Iterable[GateConfig], source: str) -> None:
    names = [gate.name for gate in gates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{source}: {names.count(twice)} gates are called {twice!r}")


def _of(given: Mapping[str, Any], kind: str) -> list[str]:
    return [name for name in given if GATE_KEYS[name].of == kind]


def _gate_tables(gates: Any, source: str) -> list[tuple[str, dict[str, Any], str]]:
    if gates is None:
        return []
    if isinstance(gates, dict):
        named = [(name, table, f'gates."{name}"') for name, table in gates.items()]
    elif isinstance(gates, list):
        named = [
            (str(table.get("name", "")) if isinstance(table, dict) else "", table, f"gates[{i}]")
            for i, table in enumerate(gates)
        ]
    else:
        raise InputError(f'{source}: gates must be tables, [tool.stabgate.gates."name"], found {_found(gates)}')
    for name, table, where in named:
        if not isinstance(table, dict):
            raise InputError(f"{source}: {where} must be a table, found {_found(table)}")
        if not name:
            raise InputError(f'{source}: {where} has no name: name = "credit/shap"')
    return named


class _Checker:
    """Says what is wrong with a table of one file."""

    def __init__(self, source: str) -> None:
        self._source = source

    def keys(self, table: Mapping[str, Any], known: Mapping[str, Key], where: str, *, others: Iterable[str]) -> None:
        allowed = [*known, *others]
        for name, value in table.items():
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(
                    f"{self._source}: {where}: unknown key {name!r}{hint} (known: {', '.join(sorted(allowed))})"
                )
            if name == "name" and not isinstance(value, str):
                raise InputError(f"{self._source}: {where}: name = {_found(value)}: it must be a text")
            self.value(f"{where}: {name}", value, known.get(name))

    def value(self, where: str, value: Any, key: Key | None) -> None:
        if key is None:
            return
        kinds = tuple(kind for name in key.kinds for kind in TYPES[name])
        if not isinstance(value, kinds) or (isinstance(value, bool) and TRUTH not in key.kinds):
            raise InputError(f"{self._source}: {where} = {_found(value)}: it must be {' or '.join(key.kinds)}")


def _found(value: Any) -> str:
    name = next((name for name, kinds in TYPES.items() if type(value) in kinds), type(value).__name__)
    return f"{value!r} ({name})"


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{file}: cannot be read as TOML ({error})") from error


def _tool(found: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The table ``tool``, in which nothing that was meant for stabgate has another name."""
    tool = found.get("tool", {})
    if not isinstance(tool, dict):
        raise InputError(f"{source}: tool must be a table")
    if Path(source).name != SHARED:
        _refuse_others(found, tool, source)
    for name in tool:
        if name != "stabgate" and difflib.get_close_matches(name.lower(), ["stabgate"], 1, NEAR):
            raise InputError(f"{source}: unknown table [tool.{name}]; did you mean [tool.stabgate]?")
    return tool


def _refuse_others(found: Mapping[str, Any], tool: Mapping[str, Any], source: str) -> None:
    """Raise InputError for the first key or table of stabgate's own file that would not be read."""
    known = [*KEYS, "name"]
    strangers = [(n, n, v) for n, v in found.items() if n != "tool"]
    strangers += [(n, f"tool.{n}", v) for n, v in tool.items() if n != "stabgate"]
    for name, path, value in strangers:
        first = value[0] if isinstance(value, list) and value else value
        if path == "stabgate":
            raise InputError(f"{source}: the table is called [tool.stabgate], found [stabgate]")
        if name not in known and isinstance(first, dict):
            near = difflib.get_close_matches(name, TABLES, 1)
            hint = f"did you mean [{TABLES[near[0]]}]?" if near else "[tool.stabgate] is what is read here"
            raise InputError(f"{source}: unknown table [{path}]; {hint}")
        if name in known:
            raise InputError(f"{source}: the key {name!r} stands outside [tool.stabgate]; it belongs below that line")
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}, below [tool.stabgate]?" if near else "keys belong below [tool.stabgate]"
        raise InputError(f"{source}: unknown key {path!r}; {hint}")
