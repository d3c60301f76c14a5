"""The `stabgate` fixture: stabgate's assertions with the run's settings, each outcome noted for table and report."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_stabgate.settings import DEFAULTS, MEASURING, parse, refuse_unknown
from stabgate.errors import StabgateError, StabilityError
from stabgate.gate import Judged, conclude, judge_min_k_stability
from stabgate.gate_fass import judge_min_fass
from stabgate.measure.fass import Fass, measure_fass
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import measure_k_stability
from stabgate.report.evidence import save_evidence
from stabgate.report.session import GateReport
from stabgate.verdict.verdicts import Verdict


class Gate:
    """What a test gets as `stabgate`.

    Settings go: argument in the test, then marker, then flag, then ini file, then default.

    Attributes:
        used: True once the test has measured something through it.
        unjudged: results in which nothing was measured, and why, until an assertion judges them.
        reports: one for each gate so far.
    """

    def __init__(self, request: pytest.FixtureRequest, settings: Mapping[str, Any], evidence: str | None) -> None:
        self._request = request
        self._settings = dict(settings)
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
        self.used = False
        self.unjudged: list[tuple[KStability | Fass, str]] = []
        self.reports: list[GateReport] = []

    def measure_k_stability(self, explainer: Any, X: Any, **measuring: Any) -> KStability:
        """`stabgate.measure_k_stability` with the run's settings."""
        __tracebackhide__ = True
        self.used = True
        try:
            result = measure_k_stability(explainer, X, **{**self._measuring, **measuring})
        except StabgateError as error:
            raise self._shortened(error) from self._cause(error)
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
        label = self._begin(name, result_or_explainer)
        replay = self._replay(measuring)
        if isinstance(result_or_explainer, KStability):
            self._warn_of_settings(label, result_or_explainer)
        else:
            measuring = {**self._measuring, **measuring}
        options: dict[str, Any] = {"k": k, "share": share, "require": require, "name": label, "replay": replay}
        return self._conclude(
            lambda: judge_min_k_stability(result_or_explainer, X, **options, **measuring),
            GateReport(label, "k-stability", f"k >= {k}", self._test, None, place=_place()),
        )

    def measure_fass(self, explainer: Any, images: Any, **measuring: Any) -> Fass:
        """`stabgate.measure_fass` with the run's seed."""
        __tracebackhide__ = True
        self.used = True
        try:
            result = measure_fass(explainer, images, **{**self._seed, **measuring})
        except StabgateError as error:
            raise self._shortened(error) from self._cause(error)
        if all(pair.fass is None for pair in result.pairs):
            first = result.pairs[0]
            self.unjudged.append((result, f"no pair has a score; the first: {first.status} ({first.reason})"))
        return result

    def assert_min_fass(
        self, result_or_explainer: Any, images: Any = None, *, score: float, name: str | None = None, **options: Any
    ) -> Verdict:
        """`stabgate.assert_min_fass` with the run's seed; the outcome goes into table and report."""
        __tracebackhide__ = True
        label = self._begin(name, result_or_explainer)
        replay = self._replay(options)
        if not isinstance(result_or_explainer, Fass):
            options = {**self._seed, **options}
        return self._conclude(
            lambda: judge_min_fass(result_or_explainer, images, score=score, name=label, replay=replay, **options),
            GateReport(label, "FASS", f"FASS >= {score}", self._test, None, place=_place()),
        )

    def _begin(self, name: str | None, given: Any) -> str:
        self.used = True
        self._gates += 1
        self._judged(given)
        return name or self._label()

    def _conclude(self, judge: Callable[[], Judged], report: GateReport) -> Verdict:
        """Judge, note what was found, and act on it."""
        __tracebackhide__ = True
        try:
            judged = judge()
        except StabgateError as error:
            self.reports.append(replace(report, message=str(error)))
            raise self._shortened(error) from self._cause(error)
        verdict, label = judged.verdict, report.name
        found = replace(report, verdict=verdict, message=judged.message, asked=str(verdict.requirement))
        found = replace(found, warns=self._settings["inconclusive"] == "warn")
        if self._evidence is not None:
            found = save_evidence(found, judged.result, self._evidence)
        self.reports.append(found)
        self._request.node.user_properties += _properties(label, verdict)
        try:
            return conclude(judged, self._settings["inconclusive"])
        except StabilityError as error:
            raise self._shortened(error) from self._cause(error)

    @property
    def _measuring(self) -> dict[str, Any]:
        return {name: self._settings[name] for name in MEASURING}

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

    def _judged(self, given: Any) -> None:
        """A result of one method out of several has their pairs."""

        def same(result: KStability | Fass) -> bool:
            if isinstance(result, Fass) and isinstance(given, Fass):
                return any(pair is given.pairs[0] for pair in result.pairs)
            return result is given

        self.unjudged = [entry for entry in self.unjudged if not same(entry[0])]

    def _label(self) -> str:
        name = str(self._request.node.name)
        return name if self._gates == 1 else f"{name} ({self._gates})"

    def _replay(self, written: Iterable[str]) -> str:
        # What the test or its marker says needs no flag, and a flag would not reach it.
        given = {n: v for n, v in self._measuring.items() if v != DEFAULTS[n] and n not in {*self._written, *written}}
        flags = [f"--stabgate-{n}={v}" for n, v in given.items()]
        return shlex.join(["pytest", self._request.node.nodeid, *flags])

    def _shortened(self, error: StabgateError) -> StabgateError:
        """The error without stabgate's own frames: the reader needs the reason and their own line."""
        return error if self._request.config.getoption("fulltrace") else error.with_traceback(None)

    def _cause(self, error: StabgateError) -> BaseException | None:
        return error.__cause__ if self._request.config.getoption("fulltrace") else None


def _properties(label: str, verdict: Verdict) -> list[tuple[str, object]]:
    """What goes into a JUnit file beside the test: numbers, and the outcome."""
    low, high = verdict.interval or (None, None)
    found = {
        "verdict": str(verdict.outcome),
        "estimate": verdict.estimate,
        "low": low,
        "high": high,
        "instances": verdict.n,
        "measured": verdict.measured,
        "met": verdict.met,
        "runs": verdict.runs,
        "model_rows": verdict.cost.rows,
        "seconds": round(verdict.cost.seconds, 3),
    }
    return [(f"stabgate.{label}.{name}", value) for name, value in found.items() if value is not None]


def _place() -> tuple[str, int] | None:
    """File and line of the call in the test."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno
