"""The `stabgate` fixture: stabgate's assertions with the run's settings, each outcome noted for table and report."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from pytest_stabgate.comparing import claim, measured
from pytest_stabgate.keeping import Keeping, from_here
from pytest_stabgate.settings import DEFAULTS, MEASURING, STOPPING, parse, refuse_unknown
from stabgate.baselines.document import unfit
from stabgate.baselines.names import is_address
from stabgate.baselines.store import Baselines
from stabgate.baselines.waivers import WaivedWarning
from stabgate.budget import Budget
from stabgate.errors import InconclusiveWarning, InputError, StabgateError, StabilityError
from stabgate.gate import Judged, conclude, judge_min_k_stability, measuring_defaults, refuse_unknown_options
from stabgate.gate_fass import judge_min_fass
from stabgate.gate_regression import judge_no_regression
from stabgate.measure.fass import Fass, measure_fass
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import measure_k_stability
from stabgate.measure.record import Record
from stabgate.report.bounded import bounded
from stabgate.report.evidence import save_evidence, source_of
from stabgate.report.properties import properties
from stabgate.report.session import GateReport
from stabgate.sequential import measure_whole
from stabgate.verdict.verdicts import Outcome, Verdict

T = TypeVar("T")
M = TypeVar("M", KStability, Fass)


class Gate:
    """What a test gets as `stabgate`.

    Settings go: argument in the test, then marker, then flag, then ini file, then default.

    Attributes:
        used: True once the test has measured something through it.
        unjudged: results in which nothing was measured, and why, until an assertion judges them.
        reports: one for each gate so far.
    """

    def __init__(
        self, request: pytest.FixtureRequest, settings: Mapping[str, Any], keeping: Keeping, evidence: str | None
    ) -> None:
        self._request = request
        self._settings = dict(settings)
        self._keeping = keeping
        self._evidence = evidence
        self._written: frozenset[str] = frozenset()
        marker = request.node.get_closest_marker("stabgate")
        if marker is not None:
            if marker.args:
                raise pytest.UsageError("the stabgate marker takes settings by name: @pytest.mark.stabgate(runs=20)")
            refuse_unknown(marker.kwargs, "setting of the stabgate marker")
            self._written = frozenset(marker.kwargs)
            self._settings |= {n: parse(n, v, f"stabgate marker: {n}") for n, v in marker.kwargs.items()}
        self._gates = 0
        self._compared: set[str] = set()  # baselines of this test
        self._open: list[tuple[KStability | Fass | None, GateReport]] = []  # measured, or tried to, and not judged yet
        self.used = False
        self.unjudged: list[tuple[KStability | Fass, str]] = []
        self.reports: list[GateReport] = []

    def measure_k_stability(self, explainer: Any, X: Any, **measuring: Any) -> KStability:
        """`stabgate.measure_k_stability` with the run's settings."""
        __tracebackhide__ = True
        result = self._opened("k-stability", explainer, lambda: self._measure(explainer, X, measuring))
        if not result.measured.any():
            self.unjudged.append((result, "no row could be explained"))
        return result

    def assert_min_k_stability(
        self,
        result_or_explainer: Any,
        X: Any = None,
        *,
        k: int,
        share: float = 1.0,
        require: str = "order",
        name: str | None = None,
        **measuring: Any,
    ) -> Verdict:
        """`stabgate.assert_min_k_stability` with the run's settings; the outcome goes into table and report.

        A result that was measured already keeps the settings that it was measured with.
        """
        __tracebackhide__ = True
        label, source = self._begin(name, result_or_explainer), source_of(result_or_explainer)
        replay = self._replay(measuring, stopping=True)
        if isinstance(result_or_explainer, KStability):
            self._warn_of_settings(label, result_or_explainer)
        else:
            measuring = {**self._measuring, **self._stopping, **measuring}
        options: dict[str, Any] = {"k": k, "share": share, "require": require, "name": label, "replay": replay}
        return self._conclude(
            lambda: judge_min_k_stability(result_or_explainer, X, **options, **measuring),
            GateReport(label, "k-stability", f"k >= {k}", self._test, None, place=_place(), source=source),
        )

    def measure_fass(self, explainer: Any, images: Any, **measuring: Any) -> Fass:
        """`stabgate.measure_fass` with the run's seed."""
        __tracebackhide__ = True
        result = self._opened("FASS", explainer, lambda: measure_fass(explainer, images, **{**self._seed, **measuring}))
        if all(pair.fass is None for pair in result.pairs):
            first = result.pairs[0]
            self.unjudged.append((result, f"no pair has a score; the first: {first.status} ({first.reason})"))
        return result

    def assert_min_fass(
        self, result_or_explainer: Any, images: Any = None, *, score: float, name: str | None = None, **options: Any
    ) -> Verdict:
        """`stabgate.assert_min_fass` with the run's seed; the outcome goes into table and report."""
        __tracebackhide__ = True
        label, source = self._begin(name, result_or_explainer), source_of(result_or_explainer)
        replay = self._replay(options)
        if not isinstance(result_or_explainer, Fass):
            self._warn_of_budget(label)
            options = {**self._seed, **options}
        return self._conclude(
            lambda: judge_min_fass(result_or_explainer, images, score=score, name=label, replay=replay, **options),
            GateReport(label, "FASS", f"FASS >= {score}", self._test, None, place=_place(), source=source),
        )

    def assert_no_regression(
        self,
        result_or_explainer: Any,
        baseline: Any = None,
        *,
        max_drop: float,
        k: int | None = None,
        name: str | None = None,
        X: Any = None,
        images: Any = None,
        **measuring: Any,
    ) -> Verdict:
        """`stabgate.assert_no_regression` against a baseline of the folder; the outcome goes into table and report.

        Args:
            result_or_explainer: what was measured now; or an explainer, which is measured on `X` or `images` in all
                runs.
            baseline: what it is compared with, if it is not the baseline called `name`: another name, the path of such
                a file, an earlier result or `Record`.
            max_drop, k: as in `stabgate.assert_no_regression`.
            name: of the baseline: "credit/shap". No other gate of the session may use it.
            X, images: what an explainer is measured on.
            measuring: options of `measure_k_stability` or `measure_fass`, with an explainer.
        """
        __tracebackhide__ = True
        if isinstance(baseline, os.PathLike):
            baseline = os.fspath(baseline)
        stored = name if baseline is None else baseline if isinstance(baseline, str) else ""
        label = self._begin(name or stored or None, result_or_explainer)
        asked = f"may fall by at most {max_drop}"
        report = GateReport(
            *(label, "regression", asked, self._test, None),
            place=_place(),
            baseline=stored or "",
            source=source_of(result_or_explainer),
        )
        options: dict[str, Any] = {"max_drop": max_drop, "k": k, "name": label, "replay": self._replay(measuring)}
        in_folder = baseline is None or (isinstance(baseline, str) and not is_address(baseline))
        test, keeping = self._request.node, self._keeping
        there = in_folder and self._try(report, lambda: claim(stored, test, keeping, self._compared))
        if isinstance(result_or_explainer, KStability):
            self._warn_of_settings(label, result_or_explainer)
        given = (result_or_explainer, baseline, X, images, measuring)
        if images is not None:
            self._warn_of_budget(label)
        result = self._try(report, lambda: measured(*given, measure=self._measure, seed=self._seed))
        if not in_folder:
            return self._conclude(lambda: judge_no_regression(result, baseline, **options), report)
        assert stored

        def compared() -> Judged:
            before = Baselines(self._keeping.folder).read(stored)
            return judge_no_regression(result, before, called=f"baseline {stored}", **options)

        update = self._keeping.update
        if there and update != "all":
            return self._conclude(compared, report)
        if not there and not update and self._settings["missing"] != "record":
            return self._missing(stored, result, report, measuring)

        def adopted() -> Judged:
            record = Record.of(result)
            if unfit(record):
                raise InputError(f"baseline {stored!r} is not written: {unfit(record)}")
            note = "there was no baseline: what was measured becomes it"
            if there:
                try:
                    return compared()
                except InputError as error:
                    note = f"the baseline that is replaced cannot be compared with: {error}"
            judged = judge_no_regression(result, record, called=f"baseline {stored}", **options)
            return replace(judged, before=None, verdict=replace(judged.verdict, notes=(note, *judged.verdict.notes)))

        return self._conclude(adopted, report, adopts="update" if there else "new")

    def _missing(
        self, stored: str, result: KStability | Fass, report: GateReport, measuring: Mapping[str, Any]
    ) -> Verdict:
        """Fail or skip for want of a baseline; what was measured is in the report, from which it can be accepted."""
        __tracebackhide__ = True
        command = self._replay(
            measuring, *([self._keeping.flag] if self._keeping.flag else []), "--stabgate-update-new"
        )
        message = f"there is no baseline {stored!r} in {self._keeping.shown}; create it with: {command}"
        report = replace(report, message=message)
        if self._evidence is not None:
            report = save_evidence(report, result, self._evidence)
        self.reports.append(report)
        if self._settings["missing"] == "skip":
            pytest.skip(message)
        raise InputError(message)

    def _begin(self, name: str | None, given: Any) -> str:
        self.used = True
        self._gates += 1
        self._judged(given)
        return name or self._label()

    def _try(self, report: GateReport, what: Callable[[], T]) -> T:
        """What it returns; where that is an error, the gate was not measured, and the report says why."""
        __tracebackhide__ = True
        try:
            return what()
        except Exception as error:
            self.reports.append(replace(report, message=str(error) or type(error).__name__))
            if isinstance(error, StabgateError):
                raise self._shortened(error) from self._cause(error)
            raise

    def _conclude(self, judge: Callable[[], Judged], report: GateReport, *, adopts: str = "") -> Verdict:
        """Judge, note what was found, and act on it."""
        __tracebackhide__ = True
        judged = self._try(report, judge)
        verdict, label = judged.verdict, report.name
        waiver = self._keeping.waivers.get(label)
        known = waiver is not None and not adopts and verdict.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
        waived = known and waiver is not None and waiver.active()
        if known and not waived and waiver is not None:
            judged = replace(judged, message=f"{judged.message}\n  the waiver of this gate has ended ({waiver})")
        found = replace(report, verdict=verdict, message=judged.message, asked=str(verdict.requirement))
        found = replace(
            found,
            warns=self._settings["inconclusive"] == "warn",
            waived=str(waiver) if waived else "",
            adopts=adopts,
            before=None if judged.before is None else judged.before.to_json(),
        )
        if self._evidence is not None:
            found = save_evidence(found, judged.result, self._evidence)
        elif adopts:
            found = replace(found, record=Record.of(judged.result).to_json())
        same = sum(one.name == label for one in self.reports)
        self.reports.append(found)
        self._request.node.user_properties += properties(f"{label} ({same + 1})" if same else label, verdict)
        if adopts:
            return verdict
        if waived:
            text = f"{verdict.outcome}: {label} is waived {waiver}: {'; '.join(verdict.reasons)}"
            with heard(WaivedWarning):
                warnings.warn(WaivedWarning(text), stacklevel=3)
            return verdict
        try:
            with heard(InconclusiveWarning):
                return conclude(replace(judged, message=bounded(judged.message)), self._settings["inconclusive"])
        except StabilityError as error:
            raise self._shortened(error) from self._cause(error)

    def _measure(self, explainer: Any, X: Any, measuring: Mapping[str, Any]) -> KStability:
        """All runs, with the run's settings: what is judged or compared further down needs every one."""
        options, budget = {**self._measuring, **measuring}, self._stopping["budget"]
        if budget is None:
            return measure_k_stability(explainer, X, **options)
        refuse_unknown_options(measuring)
        return measure_whole(explainer, X, measuring_defaults() | options, Budget.of(budget))

    @property
    def _measuring(self) -> dict[str, Any]:
        return {name: self._settings[name] for name in MEASURING}

    @property
    def _stopping(self) -> dict[str, Any]:
        budget = self._settings["budget"]
        return {"early": self._settings["early"] == "on", "budget": None if budget == "none" else budget}

    @property
    def _seed(self) -> dict[str, Any]:
        return {"seed": self._settings["seed"]}

    @property
    def _test(self) -> str:
        return str(self._request.node.nodeid)

    def _warn_of_settings(self, label: str, result: KStability) -> None:
        """A flag that a finished result cannot follow must not look as if it had been followed."""
        found = {"runs": result.runs, "seed": result.attributions.provenance.get("seed"), "threshold": result.threshold}
        for name, value in self._measuring.items():
            if name in found and value not in (DEFAULTS[name], found[name]):
                warnings.warn(
                    pytest.PytestWarning(
                        f"gate {label} was given a result with {name}={found[name]}; the setting {name}={value} does "
                        "not reach it: measure with stabgate.measure_k_stability of the fixture"
                    ),
                    stacklevel=3,
                )

    def _warn_of_budget(self, label: str) -> None:
        budget = self._stopping["budget"]
        # One in the ini file is for all gates of a project, which may well have some of both kinds.
        meant = self._request.config.getoption("stabgate_budget") is not None or "budget" in self._written
        if budget is not None and meant:
            text = f"gate {label}: the budget of {budget} is for gates of k; FASS is measured as a whole"
            warnings.warn(pytest.PytestWarning(text), stacklevel=3)

    def _opened(self, kind: str, explainer: Any, measure: Callable[[], M]) -> M:
        """What is measured, noted until a gate judges it: a test that fails before that has measured nothing."""
        __tracebackhide__ = True
        name, source = str(self._request.node.name), source_of(explainer)
        report = GateReport(name, kind, "measured for a gate", self._test, None, place=_place(3), source=source)
        try:
            result = measure()
        except Exception as error:
            self._open.append((None, replace(report, message=str(error) or type(error).__name__)))
            if isinstance(error, StabgateError):
                raise self._shortened(error) from self._cause(error)
            raise
        self.used = True
        self._open.append((result, replace(report, message="the test failed before a gate judged what was measured")))
        return result

    def end_failed(self) -> None:
        """What a test measured, or tried to, and no gate judged, once it failed."""
        self.reports += [report for _, report in self._open]

    def _judged(self, given: Any) -> None:
        """A result of one method out of several has their pairs."""

        def same(result: KStability | Fass | None) -> bool:
            if isinstance(result, Fass) and isinstance(given, Fass):
                return any(pair is given.pairs[0] for pair in result.pairs)
            return result is given

        self.unjudged = [entry for entry in self.unjudged if not same(entry[0])]
        self._open = [entry for entry in self._open if not same(entry[0])]

    def _label(self) -> str:
        name = str(self._request.node.name)
        return name if self._gates == 1 else f"{name} ({self._gates})"

    def _replay(self, written: Iterable[str], *more: str, stopping: bool = False) -> str:
        # What the test or its marker says needs no flag, and a flag would not reach it.
        names = {*MEASURING, *(STOPPING if stopping else ())} - {*self._written, *written}
        given = {n: v for n, v in self._settings.items() if n in names and v != DEFAULTS[n]}
        flags = [f"--stabgate-{n}={v}" for n, v in given.items()]
        _, *inside = self._test.split("::")
        config, start = self._request.config, self._request.config.invocation_params.dir
        file = from_here(self._request.node.path, start)
        where = ["-c", from_here(config.inipath, start)] if config.getoption("inifilename") and config.inipath else []
        where += [f"--rootdir={from_here(config.rootpath, start)}"] if config.getoption("rootdir") else []
        return shlex.join(["pytest", *where, "::".join([file, *inside]), *flags, *more])

    def _shortened(self, error: StabgateError) -> StabgateError:
        """The error without stabgate's own frames: the reader needs the reason and their own line."""
        return error if self._request.config.getoption("fulltrace") else error.with_traceback(None)

    def _cause(self, error: StabgateError) -> BaseException | None:
        return error.__cause__ if self._request.config.getoption("fulltrace") else None


@contextmanager
def heard(category: type[Warning]) -> Iterator[None]:
    """Within the block such a warning is one, also under ``-W error``: what is let through must pass, visibly."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", category)
        yield


def _place(depth: int = 2) -> tuple[str, int] | None:
    """File and line of the call in the test, that many calls above."""
    frame = sys._getframe(depth)
    return frame.f_code.co_filename, frame.f_lineno
