"""The `stabgate` fixture: stabgate's assertions with the run's settings, each outcome noted for the table."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from pytest_stabgate.settings import DEFAULTS, PROPERTY, parse, refuse_unknown
from stabgate.errors import StabgateError, StabilityError
from stabgate.gate import assert_min_k_stability
from stabgate.gate_fass import assert_min_fass
from stabgate.measure.fass import Fass, measure_fass
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import measure_k_stability
from stabgate.report.fass import FASS_HEADINGS, FASS_NUMERIC, fass_rows
from stabgate.report.text import ORDER, table, table_row
from stabgate.verdict.verdicts import Outcome, Verdict


class Gate:
    """What a test gets as `stabgate`.

    Settings go: argument in the test, then marker, then flag, then ini file, then default.

    Attributes:
        used: True once the test has measured something through it.
        unjudged: results in which nothing was measured, and why, until an assertion judges them.
    """

    def __init__(self, request: pytest.FixtureRequest, settings: Mapping[str, Any]) -> None:
        self._request = request
        self._settings = dict(settings)
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

    def measure_k_stability(self, explainer: Any, X: Any, **measuring: Any) -> KStability:
        """`stabgate.measure_k_stability` with the run's settings."""
        __tracebackhide__ = True
        self.used = True
        try:
            result = measure_k_stability(explainer, X, **{**self._settings, **measuring})
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
        """`stabgate.assert_min_k_stability` with the run's settings; the outcome goes into the table.

        A result that was measured already keeps the settings that it was measured with.
        """
        __tracebackhide__ = True
        self.used = True
        self._gates += 1
        label = name or self._label()
        self._judged(result_or_explainer)
        written = tuple(measuring)
        if isinstance(result_or_explainer, KStability):
            self._warn_of_settings(label, result_or_explainer)
        else:
            measuring = {**self._settings, **measuring}
        try:
            verdict = assert_min_k_stability(
                result_or_explainer,
                X,
                k=k,
                share=share,
                require=require,
                name=label,
                replay=self._replay(written),
                **measuring,
            )
        except StabilityError as error:
            self._note(table_row(error.verdict), error.verdict.outcome)
            raise self._shortened(error) from self._cause(error)
        except StabgateError as error:
            cells = (label, "-", "-", "-", f"k >= {k}", "-", "-", "-", "-", str(Outcome.NOT_MEASURED))
            self._note(cells, Outcome.NOT_MEASURED)
            raise self._shortened(error) from self._cause(error)
        self._note(table_row(verdict), verdict.outcome)
        return verdict

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
        """`stabgate.assert_min_fass` with the run's seed; the outcome goes into the table."""
        __tracebackhide__ = True
        self.used = True
        self._gates += 1
        self._judged(result_or_explainer)
        written = tuple(options)
        if not isinstance(result_or_explainer, Fass):
            options = {**self._seed, **options}
        label = name or self._label()
        try:
            verdict = assert_min_fass(
                result_or_explainer, images, score=score, name=label, replay=self._replay(written), **options
            )
        except StabilityError as error:
            self._note_fass(fass_rows(error.verdict), error.verdict.outcome)
            raise self._shortened(error) from self._cause(error)
        except StabgateError as error:
            cells = (label, *["-"] * 9, f"FASS >= {score}", str(Outcome.NOT_MEASURED))
            self._note_fass([cells], Outcome.NOT_MEASURED)
            raise self._shortened(error) from self._cause(error)
        self._note_fass(fass_rows(verdict), verdict.outcome)
        return verdict

    @property
    def _seed(self) -> dict[str, Any]:
        return {"seed": self._settings["seed"]}

    def _warn_of_settings(self, label: str, result: KStability) -> None:
        """A flag that a finished result cannot follow must not look as if it had been followed."""
        found = {"runs": result.runs, "seed": result.attributions.provenance.get("seed"), "threshold": result.threshold}
        for name, value in self._settings.items():
            if value not in (DEFAULTS[name], found[name]):
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

    def _note(self, cells: Sequence[str], outcome: Outcome) -> None:
        # Plain text: a value of any other type would not survive the way from an xdist worker.
        self._request.node.user_properties.append((PROPERTY, json.dumps({"outcome": outcome, "cells": list(cells)})))

    def _note_fass(self, rows: Sequence[Sequence[str]], outcome: Outcome) -> None:
        record = json.dumps({"outcome": outcome, "fass": [list(row) for row in rows]})
        self._request.node.user_properties.append((PROPERTY, record))

    def _replay(self, written: Iterable[str]) -> str:
        # What the test or its marker says needs no flag, and a flag would not reach it.
        given = {n: v for n, v in self._settings.items() if v != DEFAULTS[n] and n not in {*self._written, *written}}
        flags = [f"--stabgate-{n}={v}" for n, v in given.items()]
        return shlex.join(["pytest", self._request.node.nodeid, *flags])

    def _shortened(self, error: StabgateError) -> StabgateError:
        """The error without stabgate's own frames: the reader needs the reason and their own line."""
        return error if self._request.config.getoption("fulltrace") else error.with_traceback(None)

    def _cause(self, error: StabgateError) -> BaseException | None:
        return error.__cause__ if self._request.config.getoption("fulltrace") else None


def summary(records: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines of the tables, problems first, then by test id: gates of k-stability, then gates of FASS."""
    gates = [
        (ORDER[Outcome(gate["outcome"])], nodeid, number, gate)
        for nodeid, found in records.items()
        for number, gate in enumerate(json.loads(text) for text in found)
    ]
    ordered = [gate for *_, gate in sorted(gates, key=lambda entry: entry[:3])]
    ranks = [gate["cells"] for gate in ordered if "cells" in gate]
    maps = [row for gate in ordered for row in gate.get("fass", ())]
    lines = table(ranks) if ranks else []
    if maps:
        lines += [""] if lines else []
        lines += table(maps, FASS_HEADINGS, FASS_NUMERIC)
    return lines
