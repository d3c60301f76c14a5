"""What a budget's text means, and which texts mean none."""

from __future__ import annotations

import pytest

import stabgate as sg
from stabgate.budget import Budget


@pytest.mark.parametrize(
    ("text", "seconds", "rows"),
    [
        ("90s", 90, None),
        ("3m", 180, None),
        ("1h", 3600, None),
        ("1.5 h", 5400, None),
        ("0.5S", 0.5, None),
        ("500000 rows", None, 500_000),
        ("500_000rows", None, 500_000),
        (" 3m, 500000 rows ", 180, 500_000),
        ("500000 rows,3m", 180, 500_000),
    ],
)
def test_what_a_text_means(text, seconds, rows):
    budget = Budget.of(text)
    assert (budget.seconds, budget.rows) == (seconds, rows)
    assert str(budget) == text.strip()


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("", "''"),
        ("3", "'3'"),
        ("3 min", "'3 min'"),
        ("0s", "'0s'"),
        ("-3m", "'-3m'"),
        ("1.5 rows", "'1.5 rows'"),
        ("3m,", "''"),
        ("3m; 5 rows", "'3m; 5 rows'"),
        ("nan s", "'nan s'"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_can(given, part):
    with pytest.raises(sg.InputError) as caught:
        Budget.of(given)
    assert f"budget={given!r}: {part} cannot be read; it must be a time such as" in str(caught.value)


def test_two_limits_of_one_kind_and_other_types_are_refused():
    with pytest.raises(sg.InputError, match="names two limits of one kind"):
        Budget.of("3m, 20s")
    with pytest.raises(sg.InputError, match="budget=180; it must be a time such as"):
        Budget.of(180)
