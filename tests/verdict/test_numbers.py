"""What is shown never contradicts what was decided: shown numbers, read back, are compared again."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from stabgate.cost import Cost
from stabgate.report.fass import fass_rows
from stabgate.report.regression import REGRESSION_HEADINGS, regression_row
from stabgate.report.text import share, table_row
from stabgate.verdict.kstability import needed_rows
from stabgate.verdict.numbers import (
    beside,
    exact,
    interval_beside,
    percent,
    percent_beside,
    required_percent,
)
from stabgate.verdict.verdicts import FassRequirement, KRequirement, Outcome, RegressionRequirement, Verdict

SCORES = st.one_of(
    st.floats(0, 1),
    st.integers(0, 1000).map(lambda n: n / 1000),
    st.integers(1, 20).map(lambda n: math.nextafter(n / 20, 0)),
    st.integers(1, 19).map(lambda n: math.nextafter(n / 20, 1)),
)


def shown_percent(text: str) -> Fraction:
    assert text.endswith(" %")
    return Fraction(text.removesuffix(" %")) / 100


@settings(deadline=None)
@given(SCORES, SCORES)
@example(0.8999999, 0.9)
@example(math.nextafter(0.9, 0), 0.9)
def test_a_score_is_shown_on_its_own_side(value, threshold):
    assert (float(beside(value, threshold)) >= threshold) == (value >= threshold)
    assert float(exact(threshold)) == threshold


@settings(deadline=None)
@given(st.floats(-5, 5), st.floats(0, 2))
@example(0.1, 0.1)
@example(0.1 + 1e-17, 0.1)
@example(math.nextafter(0.1, 1), 0.1)
def test_a_drop_is_shown_above_the_margin_only_where_it_is(value, margin):
    assert (float(beside(value, margin, strict=True)) > float(exact(margin))) == (value > margin)


@settings(deadline=None)
@given(st.integers(1, 2000), st.data(), st.floats(0.001, 1, exclude_min=True))
@example(n=10, data=None, least=0.9000001)
@example(n=3, data=None, least=0.66667)
@example(n=3, data=None, least=2 / 3)
@example(n=10, data=None, least=math.nextafter(0.9, 1))
@example(n=1000, data=None, least=0.07)
def test_a_share_of_rows_is_shown_on_the_side_on_which_enough_rows_meet(n, data, least):
    needed = needed_rows(least, n)
    around = [met for met in (needed - 1, needed) if 0 <= met <= n]
    for met in around if data is None else [*around, data.draw(st.integers(0, n))]:
        verdict = k_verdict(met, n, least)
        measured, required = shown_percent(share(verdict)), shown_percent(required_percent(least))
        assert (measured >= required) == (met >= needed)
        assert f"({share(verdict)})" in table_row(verdict)[3]
        assert str(verdict.requirement).endswith(f"on {required_percent(least)} of rows")


def test_plain_numbers_stay_plain():
    assert [required_percent(x) for x in (0.9, 0.07, 0.28, 0.57, 1.0, 0.125, 0.9000001)] == [
        "90 %",
        "7 %",
        "28 %",
        "57 %",
        "100 %",
        "12.5 %",
        "90.00001 %",
    ]
    assert [percent(x) for x in (0.9, 2 / 3, 0.9995)] == ["90 %", "66.667 %", "99.95 %"]
    assert [exact(x) for x in (0.9, 1, 0.25, 3.0)] == ["0.9", "1", "0.25", "3"]
    assert beside(0.7, 0.9) == "0.700"
    assert percent_beside(0.7, 0.9) == "70 %"
    assert beside(None, 0.9) == "-"
    assert interval_beside((0.61234, 0.8), 0.7) == "0.612 to 0.800"
    assert interval_beside((0.61234, 0.8), 0.7, as_percent=True) == "61.2 % to 80 %"


@settings(deadline=None)
@given(SCORES, SCORES, SCORES)
@example(0.69996, 0.75, 0.7)
@example(0.6, 0.69996, 0.7)
def test_an_interval_straddles_as_shown_exactly_where_it_does(low, high, threshold):
    assume(low <= high)
    ends = [float(end) for end in interval_beside((low, high), threshold).split(" to ")]
    assert [end >= threshold for end in ends] == [low >= threshold, high >= threshold]
    shares = [shown_percent(end) for end in interval_beside((low, high), threshold, as_percent=True).split(" to ")]
    required = shown_percent(required_percent(threshold))
    assert [end >= required for end in shares] == [low >= threshold, high >= threshold]


@settings(deadline=None)
@given(SCORES, SCORES, SCORES, SCORES)
@example(0.69996, 0.7, 0.69996, 0.7)
def test_scores_in_the_table_stand_on_the_side_of_what_is_required_of_them(score, least, family, least_of_family):
    requirement = FassRequirement(least, (("geometric", least_of_family),), None, 0.1, 5, "aligned")
    facts = (
        ("parts", (("all", 0.5, 0.5, 0.5, score, 1.0), ("geometric", 0.5, 0.5, 0.5, family, 1.0))),
        ("explainer", "saliency"),
    )
    verdict = Verdict("gate", Outcome.FAIL, "FASS", score, None, requirement, 10, 10, 0, 1, Cost(), facts=facts)
    found = [float(row[6]) for row in fass_rows(verdict)]
    assert [found[0] >= least, found[1] >= least_of_family] == [score >= least, family >= least_of_family]
    required = [float(text) for text in re.findall(r">= ([^,]+)", str(requirement))]
    assert required == [least, least_of_family]


def k_verdict(met: int, n: int, least: float) -> Verdict:
    requirement = KRequirement(2, least, "order", 0.9, "all-pairs", 50)
    return Verdict("gate", Outcome.FAIL, "share", met / n, None, requirement, n, n, met, 50, Cost())


@settings(deadline=None)
@given(st.floats(0.0001, 3), st.floats(0, 1))
@example(0.1000001, 0.1)
@example(0.12345678, 0.1234567)
def test_a_regression_that_fails_says_a_drop_above_the_margin_it_says(drop, margin):
    requirement = RegressionRequirement("mean k", margin, 0.01, "baseline x", 50)
    verdict = Verdict("gate", Outcome.FAIL, "drop", drop, None, requirement, 9, 9, 0, 50, Cost())
    row = dict(zip(REGRESSION_HEADINGS, regression_row(verdict), strict=True))
    assert (float(row["drop"]) > float(row["margin"])) == (drop > margin)
    assert float(row["margin"]) == float(str(requirement).removeprefix("mean k may fall by at most ")) == margin
