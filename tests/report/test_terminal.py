"""Lines for people: problems first, nothing wider than the terminal, nothing that leads a terminal astray."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import HOSTILE, drop_gate, error_gate, fass_gate, k_gate, session

from stabgate.report.bounded import bounded
from stabgate.report.plain import cells, fit, pad, plain
from stabgate.report.tables import KINDS, Sheet, aligned, fitted
from stabgate.report.terminal import count, paint, reason, terminal
from stabgate.verdict.verdicts import Outcome


def lines(*gates, **how) -> list[str]:
    return [paint(line, colour=False) for line in terminal(session(*gates).gates, **how)]


EVERY = (
    k_gate(),
    k_gate("credit/good", 10, Outcome.PASS),
    fass_gate(),
    drop_gate(warns=True),
    error_gate(),
    k_gate("credit/known", waived="until 2026-02-01: vendor fixes it"),
)


def test_problems_tables_count():
    found = lines(*EVERY)
    assert found[:4] == [
        "FAIL credit/lime: 7 of 10 rows meet k >= 3, 9 are needed (90 %)",
        "FAIL (waived until 2026-02-01: vendor fixes it) credit/known: 7 of 10 rows meet k >= 3, 9 are needed (90 %)",
        "NOT MEASURED credit/wrong: k=7 asks for more than the 3 features there are",
        "INCONCLUSIVE (only warns) credit/shap: the seed was 0 then and is 1 now",
    ]
    assert [line.split("  ")[0] for line in found if line.startswith("gate")] == ["gate"] * 3
    assert found[-1] == "6 gates: 2 FAIL, 1 NOT MEASURED, 1 INCONCLUSIVE, 2 PASS (1 waived, 1 only warned)"


def test_quiet_and_verbose():
    assert len(lines(*EVERY, verbosity=-1)) == 5
    assert lines(k_gate("a", 10, Outcome.PASS), verbosity=-1) == ["1 gate: 1 PASS"]
    text = "\n".join(lines(*EVERY, verbosity=1))
    assert "    note: features repeat exact values on 2 of 10 rows\n" in text
    assert "    waived: until 2026-02-01: vendor fixes it\n" in text
    assert "    cost: 12,345 model rows in 1.5 s\n" in text


def test_messages_are_shown_where_no_test_has_shown_them():
    row = "row 'r1' not measured: run 0: ValueError: \x1b[2J"
    message = "\n  ".join(["NOT MEASURED: a", row, "and 5 more", "replay: stabgate run a"])
    gate = replace(k_gate(), message=message)
    assert "    row 'r1' not measured: run 0: ValueError: \\x1b[2J" in lines(gate, messages=True)
    assert not [line for line in lines(gate, messages=True) if "more" in line or "replay" in line]
    assert len(lines(gate, messages=True, verbosity=-1)) == 2
    told = lines(gate, messages=True, verbosity=1)
    at = told.index("    NOT MEASURED: a")
    assert told[at + 1 : at + 4] == [
        "      row 'r1' not measured: run 0: ValueError: \\x1b[2J",
        "      and 5 more",
        "      replay: stabgate run a",
    ]
    assert not [line for line in told if line.startswith(("    reason: ", "    note: "))]
    assert max(map(cells, lines(gate, messages=True, verbosity=1, width=40))) <= 40
    passed = lines(k_gate("a", 10, Outcome.PASS), messages=True, verbosity=1)
    assert "    note: features repeat exact values on 2 of 10 rows" in passed
    long = replace(gate, message="\n".join(["x" * 500] * 100) + "\n  replay: stabgate run a")
    assert any("... cut here: " in line for line in lines(long, messages=True, verbosity=1))
    assert lines(gate, verbosity=0) == lines(k_gate(), verbosity=0)


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 100, 140, None])
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_nothing_is_wider_than_the_terminal_and_every_verdict_is_there(width, verbosity):
    gates = [*EVERY, *(k_gate(name) for name in HOSTILE), *(fass_gate(name) for name in HOSTILE)]
    found = lines(*gates, width=width, verbosity=verbosity)
    if width is not None:
        assert max(cells(line) for line in found) <= width
    text = "\n".join(found)
    assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c != "\n"}
    assert "\u202e" not in text
    if verbosity >= 0 and (width or 99) >= 40:
        table = [line for line in found if re.search(r" (FAIL|PASS|NOT MEASURED|INCONCLUSIVE)( \(.*)?$", line)]
        assert len(table) >= len(gates)
    if width is None:
        assert "not shown at this width" not in text


VERDICTS = [f"{outcome}{mark}" for outcome in Outcome for mark in ("", " (waived)", " (becomes the baseline)")]


@st.composite
def sheets(draw) -> Sheet:
    headings, numeric, least, _ = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    word = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zs"]), max_size=40).map(plain)
    cell = st.one_of(st.sampled_from(["-", "6/8 (75 %)", "0.700", "12,345"]), word)
    verdict = st.sampled_from(VERDICTS)
    row = st.tuples(*[cell] * (len(headings) - 1), verdict)
    return Sheet(headings, numeric, least, tuple(draw(st.lists(row, min_size=1, max_size=4))))


@settings(deadline=None, max_examples=300)
@given(sheets(), st.integers(20, 200))
def test_columns_are_aligned_at_every_width_and_nothing_is_cut_that_fits(sheet, width):
    shown, dropped = fitted(sheet, width)
    kept = [j for j, heading in enumerate(sheet.headings) if heading not in dropped]
    assert [sheet.headings[0], sheet.headings[-1]] == [sheet.headings[kept[0]], sheet.headings[kept[-1]]]
    found = aligned(shown)
    widths = [cells(cell) for cell in found[0]]
    assert sum(widths) + 2 * (len(widths) - 1) <= width
    for row, was in zip(found, (sheet.headings, *sheet.rows), strict=True):
        assert [cells(cell) for cell in row] == widths
        for i, j in enumerate(kept):
            if cells(was[j]) <= widths[i]:
                assert row[i] == pad(was[j], widths[i], right=j in sheet.numeric)
        assert row[-1].startswith(was[-1].split(" (")[0])


@pytest.mark.parametrize("width", range(20, 201))
def test_verdicts_and_numbers_stand_below_their_headings(width):
    text = lines(*EVERY, width=width)
    for i, line in enumerate(text):
        if line.startswith("gate  "):
            at = cells(line.removesuffix("verdict"))
            for below in text[i + 1 :]:
                if not re.search(r"(FAIL|PASS|NOT MEASURED|INCONCLUSIVE)( \(.*\)| …)?$", below):
                    break
                assert below[at:].startswith(("FAIL", "PASS", "NOT MEASURED", "INCONCLUSIVE"))


def test_parts_of_a_gate_go_with_the_column_that_says_which_they_are():
    narrow = lines(fass_gate(), width=30)
    assert narrow[:2] == ["gate        FASS  verdict", "photos/ig  0.700  PASS"]


def test_columns_go_in_the_order_of_their_importance():
    wide, narrow = lines(k_gate(), width=140), lines(k_gate(), width=70)
    headings = [
        re.split(r"\s{2,}", next(line for line in found if line.startswith("gate"))) for found in (wide, narrow)
    ]
    assert headings[0][-1] == headings[1][-1] == "verdict"
    assert set(headings[1]) < set(headings[0])
    assert "rows that meet" in headings[1]
    assert "(not shown at this width: " in " ".join(narrow)


def test_colour_marks_the_verdict_and_nothing_else():
    first, *_, last = terminal(session(k_gate(), k_gate("b", 10, Outcome.PASS)).gates)[:4]
    assert paint(first, colour=True).startswith("\x1b[1;31mFAIL\x1b[0m credit/lime: ")
    assert paint(last, colour=True).endswith("  \x1b[1;31mFAIL\x1b[0m")


def test_each_problem_is_one_line_whatever_its_message_is():
    gate = error_gate()
    assert reason(k_gate()) == "7 of 10 rows meet k >= 3, 9 are needed (90 %)"
    many = replace(gate, message="first\n\n  second\x1b[2J\n" + "x" * 10_000)
    assert reason(many).startswith("first; second\\x1b[2J; xxx")
    assert len(reason(many)) == 400
    assert count([]) == "0 gates: none"


@settings(deadline=None)
@given(st.text(), st.integers(0, 30))
def test_text_of_others_fits_where_it_is_put(text, width):
    safe = plain(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in safe)
    assert safe.encode("utf-8").decode("utf-8") == safe
    assert plain(safe) == safe
    assert cells(fit(safe, width)) <= width
    assert cells(pad(fit(safe, width), width)) == width


def test_wide_characters_take_two_columns():
    assert [cells(text) for text in ("abc", "漢字", "é", "e\u0301", "👩‍🔬")] == [3, 4, 1, 1, 4]
    assert pad("漢", 4, right=True) == "  漢"
    assert fit("abcdefgh", 5) == "ab…gh"


@given(st.text(max_size=300), st.integers(600, 1000))
def test_a_message_is_whole_or_cut_where_it_says_so(text, limit):
    message = text * 50 + "\nreplay: pytest a"
    found = bounded(message, limit)
    assert len(found.encode("utf-8", "replace")) <= limit
    if len(message.encode("utf-8", "replace")) <= limit:
        assert found == message
    else:
        assert "... cut here: " in found
        assert found.endswith("\nreplay: pytest a")
