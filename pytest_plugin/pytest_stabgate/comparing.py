"""What a regression gate needs before it can compare: a baseline that is its own, and a measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_stabgate.keeping import Keeping, shared
from stabgate.baselines.names import check_name, safe_name
from stabgate.baselines.store import Baselines
from stabgate.errors import InputError
from stabgate.measure.fass import Fass, measure_fass
from stabgate.measure.kresult import KStability
from stabgate.measure.record import Record


def claim(name: str | None, item: pytest.Item, keeping: Keeping, used: set[str]) -> bool:
    """Whether there is such a baseline, if no other gate uses it; `used` are those of this attempt of the test.

    Raises:
        InputError: it cannot be a name, or another gate uses it.
    """
    if not name:
        raise InputError(
            "name is missing: a baseline is a file, and its name is written in the test, as in "
            f"name={safe_name(item.name)!r}"
        )
    check_name(name)
    problem = keeping.claim(name, item.nodeid)
    if problem or name in used:
        raise InputError(problem or shared([(name, item.nodeid)] * 2))
    used.add(name)
    return Baselines(keeping.folder).has(name)


def measured(
    given: Any,
    baseline: Any,
    X: Any,
    images: Any,
    measuring: Mapping[str, Any],
    *,
    measure: Callable[[Any, Any, Mapping[str, Any]], KStability],
    seed: Mapping[str, Any],
) -> KStability | Fass:
    """What a regression gate is about: a result as it was given, or what an explainer does on X or images.

    Args:
        given: result or explainer.
        baseline: as the test gave it; only looked at for what belongs to X or images.
        X, images: what an explainer is measured on.
        measuring: options that the test gave.
        measure: a k-stability measurement with the run's settings, of explainer, rows and options.
        seed: the run's settings of a FASS measurement.

    Raises:
        InputError: something is missing, or belongs elsewhere.
    """
    if not isinstance(baseline, (str, Record, KStability, Fass, type(None))):
        raise InputError(
            f"baseline is a {type(baseline).__name__}: give a name, an earlier result or Record; what an explainer "
            "is measured on goes to X=... (rows) or images=..."
        )
    if isinstance(given, (KStability, Fass)):
        extra = [*(["X"] if X is not None else []), *(["images"] if images is not None else []), *measuring]
        if extra:
            raise InputError(f"{extra[0]} cannot be given with a result: it has been measured already")
        return given
    if (X is None) == (images is None):
        raise InputError(
            f"a {type(given).__name__} is no result: give a KStability or Fass, or an explainer with X= (rows) or "
            "images="
        )
    if images is not None:
        return measure_fass(given, images, **{**seed, **measuring})
    return measure(given, X, measuring)
