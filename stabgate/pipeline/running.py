"""Runs the gates of a configuration: measure, judge, and report as the plugin does."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stabgate.baselines import FOLDER
from stabgate.baselines.folder import portable
from stabgate.baselines.names import is_address
from stabgate.baselines.store import Baselines
from stabgate.baselines.waivers import Waiver, read_waivers
from stabgate.budget import Budget
from stabgate.errors import InputError, MissingDependencyError, StabgateError
from stabgate.gate import Judged, judge_min_k_stability, measuring_defaults
from stabgate.gate_fass import judge_min_fass
from stabgate.gate_regression import judge_no_regression
from stabgate.measure.record import Record
from stabgate.pipeline.config import FASS, FILES, MEASURED, REQUIRED, SHARED, Config, GateConfig
from stabgate.pipeline.fitting import as_ids, check_columns
from stabgate.pipeline.inputs import importing_from, load_data, load_model, make_explainer, sampled
from stabgate.report.evidence import save_evidence, with_details
from stabgate.report.session import GateReport, SessionReport, environment, ordered
from stabgate.sequential import measure_whole
from stabgate.verdict.verdicts import Outcome

if TYPE_CHECKING:
    from stabgate.measure.fass import Fass
    from stabgate.measure.kresult import KStability


class Runner:
    """The gates of one run; models and data that several of them name are loaded once.

    Attributes:
        wrong: names of the gates that cannot be measured as they are written: model, data or options are wrong.
    """

    def __init__(self, config: Config, evidence: str) -> None:
        self._config = config
        self._evidence = evidence
        self._loaded: dict[Any, Any] = {}
        self._fresh = secrets.randbits(31)
        self._baselines = Baselines(config.folder / (config.baselines or FOLDER))
        self._waivers: dict[str, Waiver] = read_waivers(self._baselines.folder)
        self.wrong: list[str] = []

    def run(self, names: Sequence[str], told: Callable[[str], object] = lambda _: None) -> SessionReport:
        """Run the gates called `names` (all where there are none); `told` hears of each before it begins."""
        chosen = [gate for gate in self._config.gates if not names or gate.name in names]
        known = [gate.name for gate in self._config.gates]
        for name in names:
            if name not in known:
                raise InputError(f"there is no gate {name!r} in {self._config.source} (there: {', '.join(known)})")
        reports: list[GateReport] = []
        with importing_from(self._config.folder):
            for i, gate in enumerate(chosen, 1):
                told(f"{gate.name or 'gate'} ({i}/{len(chosen)})")
                reports += self._gate(gate)
        left_out = len(self._config.gates) - len(chosen)
        return SessionReport(
            gates=ordered(with_details(reports)),
            complete=not left_out,
            incomplete_because=f"{left_out} gates of {self._config.source} were not asked for" if left_out else "",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            settings=self._config.settings,
            environment=environment(),
            baselines=portable(self._baselines.folder, self._config.folder),
            stored=tuple(self._baselines.names()),
        )

    @property
    def _shown(self) -> str:
        folder = self._baselines.folder
        return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)

    def _gate(self, gate: GateConfig) -> list[GateReport]:
        """One report for each requirement of the gate: one of its own value, one against a baseline."""
        given = gate.given
        seed = self._fresh if gate.settings["seed"] == "fresh" else gate.settings["seed"]
        wanted = [kind for kind, key in (("own", "k"), ("own", "score"), ("drop", "max_drop")) if key in given]
        try:
            result, judges = self._measured(gate, seed, wanted)
        except Exception as error:
            reports = []
            for what in wanted:
                report = self._blank(gate, what, gate.name or _explainer_name(given))
                reports.append(self._failed(report, error))
            return reports
        reports = []
        for what in wanted:
            report = self._blank(gate, what, gate.name or _explainer_name(given))
            if what == "drop":
                reports.append(self._drop(gate, report, result))
            else:
                reports.append(self._judged(gate, report, judges))
        return reports

    def _measured(
        self, gate: GateConfig, seed: int, wanted: Sequence[str]
    ) -> tuple[KStability | Fass | None, Callable[[], Judged]]:
        """What was measured (None where judging measures, which may end early), and the judge of its own value."""
        given, settings = gate.given, gate.settings
        explainer, data, ids = self._inputs(gate, seed)
        options = {name: given[name] for name in MEASURED if name in given}
        if "rows" in options:
            options["rows"] = as_ids(options["rows"], data)
        if isinstance(options.get("invariance"), list):
            options["invariance"] = tuple(options["invariance"])
        asked = {n: given[n] for n, key in REQUIRED.items() if n in given and n not in ("max_drop", "baseline")}
        common: dict[str, Any] = {"name": gate.name or _explainer_name(given), "replay": self._replay(gate)}
        if gate.kind == FASS:
            from stabgate.measure.fass import measure_fass

            options |= {"seed": seed} | ({} if ids is None else {"ids": ids})
            found = measure_fass(explainer, data, **options)
            return found, lambda: judge_min_fass(found, **asked, **common)
        options |= {"seed": seed, "runs": settings["runs"], "threshold": settings["threshold"]}
        if "drop" not in wanted:
            stopping = {
                "early": settings["early"] == "on",
                "budget": None if settings["budget"] == "none" else settings["budget"],
            }
            return None, lambda: judge_min_k_stability(explainer, data, **asked, **common, **stopping, **options)
        from stabgate.measure.kstability import measure_k_stability

        # A baseline is of all runs: what is compared with one does not end early.
        if settings["budget"] == "none":
            result = measure_k_stability(explainer, data, **options)
        else:
            result = measure_whole(explainer, data, measuring_defaults() | options, Budget.of(settings["budget"]))
        return result, lambda: judge_min_k_stability(result, **asked, **common)

    def _inputs(self, gate: GateConfig, seed: int) -> tuple[Any, Any, Sequence[str] | None]:
        given, folder, where = gate.given, self._config.folder, gate.where
        data, ids = self._data(gate, "data")
        model = None
        if "model" in given:
            spec = str(given["model"])
            model = self._once(("model", spec), lambda: load_model(spec, folder=folder, where=where))
        background = None
        if gate.kind != FASS:
            check_columns(data, model, f"{where}data = {given['data']!r}")
            background = self._data(gate, "background")[0] if "background" in given else data
            background = sampled(background, given.get("background_rows"), seed=seed, where=where)
        return make_explainer(given, model, background, where=where), data, ids

    def _data(self, gate: GateConfig, key: str) -> tuple[Any, Sequence[str] | None]:
        given = gate.given
        how = tuple(str(given.get(name)) for name in (key, "array", "drop", "index", "size"))
        folder = self._config.folder
        found: tuple[Any, Sequence[str] | None] = self._once(
            ("data", *how), lambda: load_data(given, key, folder=folder, where=gate.where)
        )
        return found

    def _once(self, key: Any, load: Callable[[], Any]) -> Any:
        if key not in self._loaded:
            self._loaded[key] = load()
        return self._loaded[key]

    def _drop(self, gate: GateConfig, report: GateReport, result: KStability | Fass | None) -> GateReport:
        assert result is not None
        name, given = report.baseline, gate.given
        options = {"max_drop": given["max_drop"], "name": report.name, "replay": self._replay(gate)}
        if is_address(name):
            return self._judged(gate, report, lambda: judge_no_regression(result, name, **options))
        try:
            there = self._baselines.has(name)
        except InputError as error:
            return self._failed(report, error)
        if there:
            called = f"baseline {name}"
            return self._judged(
                gate,
                report,
                lambda: judge_no_regression(result, self._baselines.read(name), called=called, **options),
            )
        message = (
            f"there is no baseline {name!r} in {self._shown}; create it with: "
            f"{self._replay(gate)} --json=results.json; "  # not &&: without the baseline its exit code is 3
            f'stabgate accept results.json {shlex.quote(name)} --reason="first"'
        )
        return save_evidence(replace(report, message=message), result, self._evidence)

    def _judged(self, gate: GateConfig, report: GateReport, judge: Callable[[], Judged]) -> GateReport:
        try:
            judged = judge()
        except Exception as error:
            return self._failed(report, error)
        verdict, message = judged.verdict, judged.message
        waiver = self._waivers.get(report.name)
        known = waiver is not None and verdict.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
        waived = known and waiver is not None and waiver.active()
        if known and not waived:
            message = f"{message}\n  the waiver of this gate has ended ({waiver})"
        before = getattr(judged, "before", None)
        found = replace(
            report,
            verdict=verdict,
            message=message,
            asked=str(verdict.requirement),
            warns=gate.settings["inconclusive"] == "warn",
            waived=str(waiver) if waived else "",
            before=before.to_json() if isinstance(before, Record) else None,
        )
        return save_evidence(found, judged.result, self._evidence)

    def _failed(self, report: GateReport, error: Exception) -> GateReport:
        """The gate was not measured, whatever was raised: others go on, and the exit code is not that of a pass."""
        if isinstance(error, (InputError, MissingDependencyError)):
            self.wrong.append(report.name)
        said = str(error) if isinstance(error, StabgateError) else f"{type(error).__name__}: {error}"
        return replace(report, message=said)

    def _blank(self, gate: GateConfig, what: str, name: str) -> GateReport:
        given = gate.given
        if what == "drop":
            baseline = str(given.get("baseline") or gate.name)
            asked = f"may fall by at most {given['max_drop']}"
            return GateReport(name, "regression", asked, "", None, baseline=baseline)
        asked = f"FASS >= {given['score']}" if gate.kind == FASS else f"k >= {given['k']}"
        return GateReport(name, gate.kind, asked, "", None)

    def _replay(self, gate: GateConfig) -> str:
        """The command that measures a gate again, alone and with the same flags."""
        name = [] if not gate.name else [gate.name] if gate.where else [f"--name={gate.name}"]
        source = self._config.source
        found = source in ("command line", FILES[0]) or (source == SHARED and not Path(FILES[0]).is_file())
        return shlex.join(["stabgate", "run", *name, *([] if found else [f"--config={source}"]), *self._flags(gate)])

    def _flags(self, gate: GateConfig) -> list[str]:
        """The flags that were given; a fresh seed is the one that it was."""
        flags = list(self._config.flags)
        if gate.settings["seed"] == self._config.settings["seed"] == "fresh":
            flags = [*(flag for flag in flags if not flag.startswith("--seed=")), f"--seed={self._fresh}"]
        return flags


def exit_code(report: SessionReport, wrong: Iterable[str]) -> int:
    """0: nothing blocks; 1: a gate failed; 2: a gate cannot be measured as it is written; 3: one was not measured."""
    blocking = [gate for gate in report.gates if gate.blocks]
    if any(gate.outcome is Outcome.FAIL for gate in blocking):
        return 1
    return 2 if list(wrong) else 3 if blocking or not report.gates else 0


def _explainer_name(given: Mapping[str, Any]) -> str:
    explainer = given["explainer"]
    return str(explainer["name"] if isinstance(explainer, dict) else explainer)
