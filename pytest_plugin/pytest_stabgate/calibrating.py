"""The fixture while a gate is calibrated: every measurement is repeated under disjoint seeds, and nothing is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_stabgate.fixture import Gate
from stabgate.calibrate import Calibration, calibrate_fass, calibrate_k
from stabgate.errors import InputError
from stabgate.gate import judge_min_k_stability
from stabgate.gate_fass import judge_min_fass
from stabgate.measure.fass import Fass, measure_fass
from stabgate.measure.kresult import KStability
from stabgate.measure.kstability import measure_k_stability
from stabgate.verdict.regression import judge_regression
from stabgate.verdict.verdicts import Verdict

ONLY_JUDGING = ("early", "budget", "replay", "inconclusive")  # options of an assertion that no measurement knows


class CalibratingGate(Gate):
    """What a test gets as `stabgate` under ``--stabgate-calibrate``; assertions return verdicts and raise nothing.

    Attributes:
        calibrations: what was found of each gate, as lines of text.
    """

    def __init__(self, *given: Any, repeats: int) -> None:
        if repeats < 3:
            raise pytest.UsageError(f"--stabgate-calibrate={repeats}: a spread needs at least 3 repetitions")
        super().__init__(*given)
        self._repeats = repeats
        self._repeated: list[tuple[KStability | Fass, list[Any]]] = []
        self.calibrations: list[list[str]] = []

    def measure_k_stability(self, explainer: Any, X: Any, **measuring: Any) -> KStability:
        """As `Gate.measure_k_stability`, and again under other seeds."""
        self.used = True
        options = {**self._measuring, **measuring}
        found = [measure_k_stability(explainer, X, **_other_seed(options, i)) for i in range(self._repeats)]
        self._repeated.append((found[0], found))
        return found[0]

    def measure_fass(self, explainer: Any, images: Any, **measuring: Any) -> Fass:
        """As `Gate.measure_fass`, and again under other seeds."""
        self.used = True
        options = {**self._seed, **measuring}
        found = [measure_fass(explainer, images, **_other_seed(options, i)) for i in range(self._repeats)]
        self._repeated.append((found[0], found))
        return found[0]

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
        """Calibrates instead."""
        label = self._begin(name, result_or_explainer)
        given = result_or_explainer
        asked: dict[str, Any] = {"k": k, "share": share, "require": require}
        if not isinstance(given, KStability):
            options = {option: value for option, value in measuring.items() if option not in ONLY_JUDGING}
            given = self.measure_k_stability(given, X, **options)
        self._calibrated(calibrate_k(self._found(given, label), name=label, **asked))
        return judge_min_k_stability(given, name=label, **asked).verdict

    def assert_min_fass(
        self, result_or_explainer: Any, images: Any = None, *, score: float, name: str | None = None, **options: Any
    ) -> Verdict:
        """Calibrates instead."""
        label = self._begin(name, result_or_explainer)
        given = result_or_explainer
        known = judge_min_fass.__kwdefaults__ or {}
        judging = {option: value for option, value in options.items() if option in known}
        if not isinstance(given, Fass):
            measuring = {o: value for o, value in options.items() if o not in known and o not in ONLY_JUDGING}
            given = self.measure_fass(given, images, **measuring)
        self._calibrated(calibrate_fass(self._found(given, label), name=label, score=score))
        return judge_min_fass(given, score=score, name=label, **judging).verdict

    def assert_no_regression(
        self,
        result_or_explainer: Any,
        baseline: Any = None,  # noqa: ARG002 (margins need no baseline)
        *,
        max_drop: float,
        k: int | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Verdict:
        """Calibrates the margin instead; the baseline is not read."""
        from stabgate.measure.record import Record

        label = self._begin(name, result_or_explainer)
        given = result_or_explainer
        if not isinstance(given, (KStability, Fass)):
            measuring = {option: value for option, value in options.items() if option not in ONLY_JUDGING}
            if "images" in measuring:
                given = self.measure_fass(given, measuring.pop("images"), **measuring)
            else:
                given = self.measure_k_stability(given, measuring.pop("X", None), **measuring)
        found = self._found(given, label)
        calibrate = calibrate_k if isinstance(given, KStability) else calibrate_fass
        self._calibrated(calibrate(found, name=label))
        first, second = Record.of(found[0]), Record.of(found[1])
        return judge_regression(second, first, max_drop=max_drop, k=k, name=label, baseline=label)

    def _found(self, given: Any, label: str) -> list[Any]:
        """The repetitions of a result; those of one method for a result of one method out of several."""
        for first, found in self._repeated:
            if first is given:
                return found
            if isinstance(first, Fass) and isinstance(given, Fass) and _same_pairs(first, given):
                return [one[given.method] for one in found]
        raise InputError(
            f"{label} was given a result that was measured elsewhere, under one seed; calibration repeats that: "
            "measure in the test, with stabgate.measure_k_stability or stabgate.measure_fass of the fixture"
        )

    def _calibrated(self, found: Calibration) -> None:
        self.calibrations.append(found.lines())


def _same_pairs(several: Fass, one: Fass) -> bool:
    return any(pair is one.pairs[0] for pair in several.pairs)


def _other_seed(options: Mapping[str, Any], i: int) -> dict[str, Any]:
    return {**options, "seed": int(options["seed"]) + i}
