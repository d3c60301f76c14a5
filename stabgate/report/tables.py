"""The tables that a run ends with: gates of k-stability, of FASS, and against baselines; problems first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stabgate.report.fass import FASS_HEADINGS, FASS_NUMERIC, fass_rows
from stabgate.report.plain import cells, fit, pad, plain
from stabgate.report.regression import REGRESSION_HEADINGS, REGRESSION_NUMERIC, regression_row
from stabgate.report.session import GateReport
from stabgate.report.text import HEADINGS, NUMERIC, table_row
from stabgate.verdict.verdicts import Outcome, Verdict

LONGEST_CELL = 60  # columns; what is longer is cut in the middle
SHORTEST_NAME = 12  # a column of the table goes before names become shorter
GAP = 2


@dataclass(frozen=True)
class Sheet:
    """Gates of one kind.

    Attributes:
        headings: of the columns; the first is the gate's name, the last its verdict.
        numeric: positions of the columns that stand to the right.
        least: headings of the columns that a narrow terminal can do without, the least important first.
        rows: cells, one for each heading.
    """

    headings: tuple[str, ...]
    numeric: frozenset[int]
    least: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without(self, heading: str) -> Sheet:
        """This sheet without one of its columns."""
        at = self.headings.index(heading)
        kept = [j for j in range(len(self.headings)) if j != at]
        return Sheet(
            tuple(self.headings[j] for j in kept),
            frozenset(i for i, j in enumerate(kept) if j in self.numeric),
            self.least,
            tuple(tuple(row[j] for j in kept) for row in self.rows),
        )


Row: TypeAlias = tuple[str, ...]
Rows: TypeAlias = Callable[[Verdict], list[Row]]
KINDS: dict[str, tuple[Row, frozenset[int], Row, Rows]] = {
    "k-stability": (
        HEADINGS,
        NUMERIC,
        ("seconds", "model rows", "runs", "RAND's k", "k (median)", "explainer", "requirement"),
        lambda verdict: [table_row(verdict)],
    ),
    "FASS": (
        FASS_HEADINGS,
        FASS_NUMERIC,
        ("SSIM", "Spn.", "Jac.", "re-seed", "floor", "method", "retention", "requirement"),
        fass_rows,
    ),
    "regression": (
        REGRESSION_HEADINGS,
        REGRESSION_NUMERIC,
        ("runs", "p", "baseline", "margin", "before", "now", "metric"),
        lambda verdict: [regression_row(verdict)],
    ),
}


def sheets(gates: Sequence[GateReport]) -> list[Sheet]:
    """One sheet for each kind of gate there is, its rows in the order of `gates`."""
    found = []
    for kind, (headings, numeric, least, rows_of) in KINDS.items():
        rows = [
            tuple(plain(cell) for cell in (*row[:-1], row[-1] and row[-1] + _mark(gate)))
            for gate in gates
            if gate.kind == kind
            for row in ([_unmeasured(gate, headings)] if gate.verdict is None else rows_of(gate.verdict))
        ]
        if rows:
            found.append(Sheet(tuple(headings), numeric, least, tuple(rows)))
    return found


def standing(gate: GateReport) -> str:
    """What lets a gate through, for people: " (waived until ...)", " (only warns)"; empty where nothing need."""
    if gate.adopts:
        return " (new baseline)" if gate.adopts == "new" else " (becomes the baseline)"
    if gate.outcome is Outcome.PASS:
        return ""
    return f" (waived {plain(gate.waived)})" if gate.waived else "" if gate.blocks else " (only warns)"


def _mark(gate: GateReport) -> str:
    """`standing`, short: the line of the problem says until when and why."""
    found = standing(gate)
    return " (waived)" if found.startswith(" (waived") else found


def fitted(sheet: Sheet, width: int | None) -> tuple[Sheet, list[str]]:
    """The sheet as it fits into `width` columns (None: as wide as it likes), and the headings that it gave up."""
    sheet = _cut(sheet, [LONGEST_CELL] * len(sheet.headings))
    dropped: list[str] = []
    if width is None:
        return sheet, dropped
    for heading in sheet.least:
        if _wide(_widths(sheet)) > width:
            sheet = sheet.without(heading)
            dropped.append(heading)
    for heading in sheet.headings[1:-1]:
        if _wide(_narrowest(sheet)) > width:
            sheet = sheet.without(heading)
            # A row without a verdict is a part of the gate above it, and this column may have said which.
            sheet = replace(sheet, rows=tuple(row for row in sheet.rows if row[-1]))
            dropped.append(heading)
    return _cut(sheet, _narrowed(sheet, width)), dropped


def aligned(sheet: Sheet) -> list[list[str]]:
    """Headings and rows as cells of equal width."""
    widths = _widths(sheet)
    return [
        [pad(cell, width, right=j in sheet.numeric) for j, (cell, width) in enumerate(zip(row, widths, strict=True))]
        for row in (sheet.headings, *sheet.rows)
    ]


def table(rows: Sequence[Row], headings: Row, numeric: frozenset[int]) -> list[str]:
    """Lines of any table: headings, then `rows`; `numeric` are the columns that stand to the right."""
    sheet = Sheet(headings, numeric, (), tuple(tuple(plain(cell) for cell in row) for row in rows))
    return [(" " * GAP).join(row).rstrip() for row in aligned(sheet)]


def _widths(sheet: Sheet) -> list[int]:
    return [max(cells(row[j]) for row in (sheet.headings, *sheet.rows)) for j in range(len(sheet.headings))]


def _narrowest(sheet: Sheet) -> list[int]:
    """Widths at which names can be told apart, outcomes are whole, and between them nothing but headings is cut."""
    name, *_, verdict = _widths(sheet)
    between = [max((cells(row[j]) for row in sheet.rows), default=1) for j in range(1, len(sheet.headings) - 1)]
    outcome = max(cells(row[-1].partition(" (")[0]) for row in (sheet.headings, *sheet.rows))
    return [min(name, SHORTEST_NAME), *between, min(verdict, outcome)]


def _narrowed(sheet: Sheet, width: int) -> list[int]:
    """Widths of the columns that together are `width` at most: names give way, then headings, marks, names again."""
    widths, least = _widths(sheet), _narrowest(sheet)
    last = len(widths) - 1
    steps = [(j, least[j]) for j in range(last + 1)] + [(0, 1), (last, 1)]
    for j, shortest in steps:
        widths[j] -= max(0, min(widths[j] - shortest, _wide(widths) - width))
    return widths


def _wide(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _cut(sheet: Sheet, widths: Sequence[int]) -> Sheet:
    """The sheet with no cell wider than its column."""
    *others, last = widths
    rows = tuple(
        (*(fit(cell, most) for cell, most in zip(row[:-1], others, strict=True)), _fit_verdict(row[-1], last))
        for row in (sheet.headings, *sheet.rows)
    )
    return Sheet(rows[0], sheet.numeric, sheet.least, rows[1:])


def _fit_verdict(text: str, most: int) -> str:
    """A verdict in at most `most` columns: what lets it through goes before the outcome does."""
    if cells(text) <= most:
        return text
    outcome = text.partition(" (")[0]
    return f"{outcome} …" if cells(outcome) + 2 <= most else fit(outcome, most)


def _unmeasured(gate: GateReport, headings: Sequence[str]) -> tuple[str, ...]:
    known = {"gate": gate.name, "requirement": gate.asked, "baseline": gate.baseline, "verdict": str(gate.outcome)}
    return tuple(known.get(heading) or "-" for heading in headings)
