"""A run of gates as Markdown, for GitHub's summary: problems first, then tables, then what each problem says."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from stabgate.report.plain import plain
from stabgate.report.session import GateReport, SessionReport
from stabgate.report.tables import Sheet, sheets, standing
from stabgate.report.terminal import count, reason
from stabgate.verdict.verdicts import Outcome

LIMIT = 1_000_000  # bytes; GitHub drops a summary of more than 1 MiB as a whole
LONGEST_NAME = 300  # characters
LONGEST_MESSAGE = 8000  # characters
ROOM = 300  # bytes for the line that says what was left out
SYMBOLS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "❔", Outcome.NOT_MEASURED: "⛔"}
MARKS = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # what means something within a line
BREAKS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": "&#58;//", "www.": "www&#46;"}  # tags, links


def markdown(report: SessionReport, *, limit: int = LIMIT) -> str:
    """The text, in at most `limit` bytes of UTF-8; what does not fit is counted, problems are there first."""
    problems = [gate for gate in report.gates if gate.outcome is not Outcome.PASS]
    parts = [_heading(report)]
    room = limit - len(parts[0].encode()) - ROOM
    for title, blocks in (
        ("problems", _listed(problems)),
        ("rows of tables", (line for sheet in sheets(report.gates) for line in _table(sheet))),
        ("messages", (_message(gate) for gate in problems if gate.message)),
        ("facts", iter(_facts(report))),
    ):
        left_out = 0
        for block in blocks:
            size = len(block.encode())
            if left_out or size > room:
                left_out += 1
                continue
            room -= size
            parts.append(block)
        if left_out:
            parts.append(f"\n{left_out} more {title} are left out for want of room.\n")
            break
    return "".join(parts)


def escape(text: str, most: int = LONGEST_NAME) -> str:
    """Text of others as text: no tag, link, mention, table cell or heading comes of it."""
    text = plain(text)
    text = text if len(text) <= most else text[: most - 1] + "…"
    text = MARKS.sub(r"\\\g<0>", text)
    for broken, safe in BREAKS.items():
        text = text.replace(broken, safe)
    return text


def _heading(report: SessionReport) -> str:
    blocking = sum(gate.blocks for gate in report.gates)
    if not report.gates:
        return "## stabgate: no gate ran\n"
    verb = "does" if blocking == 1 else "do"
    said = (
        f"{blocking} of {len(report.gates)} gates {verb} not pass"
        if blocking
        else "every gate passes or is let through"
    )
    if all(gate.outcome is Outcome.PASS for gate in report.gates):
        said = f"all {len(report.gates)} gates pass" if len(report.gates) > 1 else "the gate passes"
    unfinished = f"\nThe run did not finish: {escape(report.unfinished, 1000)}\n" if report.unfinished else ""
    symbol = SYMBOLS[Outcome.FAIL if blocking or unfinished else Outcome.PASS]
    said += ", and the run did not finish" if unfinished else ""
    return f"## {symbol} stabgate: {said}\n\n{escape(count(report.gates))}\n{unfinished}"


def _listed(problems: Sequence[GateReport]) -> Iterator[str]:
    if problems:
        yield "\n| verdict | gate | why |\n| --- | --- | --- |\n"
    for gate in problems:
        verdict = f"{SYMBOLS[gate.outcome]} {gate.outcome}{escape(standing(gate))}"
        yield f"| {verdict} | {escape(gate.name)} | {escape(reason(gate), 400)} |\n"


def _table(sheet: Sheet) -> Iterator[str]:
    yield "\n" + _cells(escape(heading) for heading in sheet.headings)
    yield _cells("---:" if j in sheet.numeric else "---" for j in range(len(sheet.headings)))
    for row in sheet.rows:
        yield _cells(escape(cell) for cell in row)


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _message(gate: GateReport) -> str:
    lines = "\n".join(plain(line) for line in gate.message.splitlines())
    cut = lines if len(lines) <= LONGEST_MESSAGE else lines[:LONGEST_MESSAGE] + "\n… cut here"
    name = _html(plain(gate.name)[:LONGEST_NAME])
    return f"\n<details><summary>{gate.outcome}: {name}</summary>\n<pre>{_html(cut)}</pre>\n</details>\n"


def _facts(report: SessionReport) -> list[str]:
    found = {**report.settings, **report.environment}
    lines = ["\n", *(f"- {escape(str(name))}: {escape(str(value), 500)}\n" for name, value in found.items())]
    if not report.complete:
        lines.append(f"- not every gate ran: {escape(report.incomplete_because, 500)}\n")
    return lines


def _html(text: str) -> str:
    return html.escape(text).replace("@", "&#64;")
