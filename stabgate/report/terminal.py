"""What a run says at its end on a terminal or in a log: problems first, one line each, then tables, then the count."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from stabgate.report.bounded import bounded
from stabgate.report.plain import cells, fit, plain
from stabgate.report.session import GateReport
from stabgate.report.tables import GAP, aligned, fitted, sheets, standing
from stabgate.report.text import ORDER, runs
from stabgate.verdict.verdicts import Outcome

Line: TypeAlias = tuple[tuple[str, str], ...]  # pieces of text, each with the outcome whose colour it has, or ""

COLOURS = {Outcome.FAIL: "1;31", Outcome.NOT_MEASURED: "31", Outcome.INCONCLUSIVE: "33", Outcome.PASS: "32"}
LONGEST_NAME = 80  # columns
LONGEST_REASON = 400  # characters
INDENT = "    "
UNMEASURED = re.compile(r" +(row .+ not measured|image .+: error): ")  # a line of a gate's message


def terminal(
    gates: Sequence[GateReport], *, width: int | None = None, verbosity: int = 0, messages: bool = False
) -> list[Line]:
    """The lines.

    Args:
        gates: in the order in which they are to stand, problems first.
        width: columns of the terminal; None where nothing limits it, as in a log.
        verbosity: below 0: problems and the count; above 0: what is known of each gate beside its verdict as well.
        messages: whether to show what the gates that did not pass say; pytest has shown it, as a test's failure.
    """
    lines: list[Line] = []
    for gate in gates:
        if gate.outcome is not Outcome.PASS:
            lines += _problem(gate, width)
            if messages and verbosity == 0:
                lines += _first_unmeasured(gate, width)
    if verbosity >= 0:
        for sheet in sheets(gates):
            shown, dropped = fitted(sheet, width)
            lines += [(("", ""),)] if lines else []
            lines += [_row(row) for row in aligned(shown)]
            if dropped and verbosity == 0:
                lines += _folded(f"(not shown at this width: {', '.join(reversed(dropped))}; -v shows all)", width)
    if verbosity > 0:
        lines += [line for gate in gates for line in _details(gate, width, messages=messages)]
    lines += [(("", ""),)] if verbosity >= 0 else []
    return [*lines, *_folded(count(gates), width)]


def paint(line: Line, *, colour: bool) -> str:
    """The text of a line, with ANSI colours where they are wanted."""
    return "".join(
        f"\x1b[{COLOURS[Outcome(outcome)]}m{text}\x1b[0m" if colour and outcome else text for text, outcome in line
    ).rstrip()


def count(gates: Sequence[GateReport]) -> str:
    """How many gates came to which outcome, and what lets some of them through."""
    found = Counter(gate.outcome for gate in gates)
    parts = ", ".join(f"{found[outcome]} {outcome}" for outcome in ORDER if found[outcome])
    waived = sum(bool(gate.waived) and gate.outcome is not Outcome.PASS for gate in gates)
    adopted = sum(bool(gate.adopts) for gate in gates)
    through = [gate for gate in gates if gate.outcome is not Outcome.PASS and not gate.blocks]
    warned = sum(not gate.waived and not gate.adopts for gate in through)
    counts = ((waived, "waived"), (warned, "only warned"), (adopted, "as the new baseline"))
    notes = [f"{number} {what}" for number, what in counts if number]
    return f"{len(gates)} gate{'s' * (len(gates) != 1)}: {parts or 'none'}" + (f" ({', '.join(notes)})" * bool(notes))


def reason(gate: GateReport) -> str:
    """Why a gate did not pass, in words and numbers, on one line; empty where it did."""
    if gate.verdict is None:
        return _one_line(gate.message)
    reasons = gate.verdict.reasons
    if gate.outcome is Outcome.PASS:
        return ""
    return _one_line("; ".join(reasons[:2] if gate.outcome is Outcome.NOT_MEASURED else reasons[:1]) or gate.message)


def _problem(gate: GateReport, width: int | None) -> list[Line]:
    rest = f"{standing(gate)} {fit(plain(gate.name), LONGEST_NAME)}: {reason(gate)}"
    return _coloured(str(gate.outcome), rest, width)


def _first_unmeasured(gate: GateReport, width: int | None) -> list[Line]:
    """Where rows or pairs were not measured: the first of them and why, as the gate's message has it."""
    first = next((line for line in gate.message.splitlines() if UNMEASURED.match(line)), None)
    return [] if first is None else _folded(INDENT + _one_line(first), width)


def _details(gate: GateReport, width: int | None, *, messages: bool) -> list[Line]:
    """One fact a line; what the message of a failed test says stands in it alone where `messages` are shown."""
    lines: list[Line] = [(("", ""),), *_coloured(str(gate.outcome), f" {fit(plain(gate.name), LONGEST_NAME)}", width)]
    told = messages and gate.outcome is not Outcome.PASS and bool(gate.message)
    for name, text in _facts(gate) + ([] if told else _whys(gate)):
        if text:
            lines += _folded(f"{INDENT}{name}: {_one_line(text)}", width)
    return [*lines, *(_message(gate.message, width) if told else [])]


def _facts(gate: GateReport) -> list[tuple[str, str]]:
    verdict = gate.verdict
    facts = [("asked", gate.asked), ("test", gate.test), ("baseline", gate.baseline), ("waived", gate.waived)]
    if verdict is not None:
        facts += [
            ("explainer", str(verdict.fact("explainer") or "")),
            ("runs", runs(verdict)),
            ("measured", f"{verdict.measured} of {verdict.n}"),
            ("cost", f"{verdict.cost.rows:,} model rows in {verdict.cost.seconds:.1f} s"),
        ]
    return facts


def _whys(gate: GateReport) -> list[tuple[str, str]]:
    if gate.verdict is None:
        return [("reason", gate.message)]
    return [("reason", text) for text in gate.verdict.reasons] + [("note", text) for text in gate.verdict.notes]


def _message(message: str, width: int | None) -> list[Line]:
    """Each line of a message on its own."""
    shown = [plain(line.rstrip()) for line in bounded(message).splitlines() if line.strip()]
    return [line for text in shown for line in _folded(INDENT + text, width)]


def _row(row: Sequence[str]) -> Line:
    *others, verdict = row
    outcome = verdict.strip()  # and what lets it through
    colour = outcome.removesuffix(" …").split(" (")[0]
    return ((" " * GAP).join([*others, ""]), ""), (outcome, colour if colour in COLOURS else "")


def _coloured(outcome: str, rest: str, width: int | None) -> list[Line]:
    first, *more = _folded(outcome + rest, width)
    text = first[0][0]
    return (
        [((outcome, outcome), (text.removeprefix(outcome), "")), *more] if text.startswith(outcome) else [first, *more]
    )


def _folded(text: str, width: int | None) -> list[Line]:
    """`text` on as many lines as it takes, broken between words where that is possible."""
    if width is None or cells(text) <= width:
        return [((text, ""),)]
    lead = text[: len(text) - len(text.lstrip())]
    room = max(width - 1, 8)  # wide characters: textwrap counts characters, so some room is left
    wrapped = textwrap.wrap(
        text, room, subsequent_indent=lead + INDENT * (room > 40), break_on_hyphens=False, drop_whitespace=True
    )
    return [((piece if cells(piece) <= width else fit(piece, width), ""),) for piece in wrapped]


def _one_line(text: str) -> str:
    text = plain("; ".join(part.strip() for part in text.splitlines() if part.strip()))
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"
