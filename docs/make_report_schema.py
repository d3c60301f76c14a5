"""Writes docs/report-schema.md: the fields of the JSON document of a run, read from the classes that write it."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

from stabgate.cost import Cost
from stabgate.measure.record import PairRecord, Record, RowRecord
from stabgate.report.session import SCHEMA, GateReport, SessionReport
from stabgate.verdict.verdicts import FassRequirement, KRequirement, RegressionRequirement, Verdict

PAGE = Path(__file__).with_name("report-schema.md")
INTRODUCTION = f"""# The JSON document of a run

`pytest --stabgate-json=results.json` and `stabgate run --json=results.json` write it; `stabgate report`, `accept`,
`prune` and `compare` read it, and `stabgate.report.session.SessionReport.load` does. This is schema {SCHEMA}. Another
schema is refused with the way forward; fields are added only with a new one. There is no NaN and no infinity in it:
what was not measured is `null`. Written by `docs/make_report_schema.py`; a test fails when this page and the code
differ.

The document is an object with the fields of [SessionReport](#sessionreport); its `gates` are objects with those of
[GateReport](#gatereport), and so on.
"""
CLASSES = (
    SessionReport,
    GateReport,
    Verdict,
    KRequirement,
    FassRequirement,
    RegressionRequirement,
    Cost,
    Record,
    RowRecord,
    PairRecord,
)
JSON_TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "None": "null",
    "Outcome": "string",
    "Any": "any",
}
NOTES = {
    "Verdict.outcome": "`PASS`, `FAIL`, `INCONCLUSIVE` or `NOT MEASURED`",
    "Verdict.requirement": "KRequirement, FassRequirement or RegressionRequirement, with `kind`: `k-stability`, `FASS` "
    "or `regression`",
    "PairRecord.image": "name of the image, as text",
    "PairRecord.hash": "of its values",
    "PairRecord.perturbation": "label of what was done to it",
    "PairRecord.draw": "number of the draw, from 0",
    "PairRecord.status": "`retained`, or why there is no score",
    "PairRecord.score": "FASS of the pair",
    "Record.rows": "of a k-stability measurement, sorted by id; not there in one of FASS",
    "Record.pairs": "of a FASS measurement, sorted by image, perturbation and draw; not there in one of k-stability",
    "GateReport.evidence": "always null in a document: it is a folder that lives as long as the session",
}


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(_section(cls) for cls in CLASSES)


def _section(cls: Any) -> str:
    meanings = _meanings(inspect.getdoc(cls) or "")
    rows = []
    for field in dataclasses.fields(cls):
        meaning = NOTES.get(f"{cls.__name__}.{field.name}") or meanings.get(field.name, "")
        if not meaning and field.name == "schema":
            meaning = "version of this layout"
        rows.append(f"| `{field.name}` | {_type(str(field.type))} | {meaning} |")
    first = (inspect.getdoc(cls) or "").splitlines()[0]
    headings = "| field | type | meaning |\n| --- | --- | --- |"
    return "\n".join([f"\n## {cls.__name__}", "", _json(first), "", headings, *rows, ""])


def _type(text: str) -> str:
    """A Python annotation in JSON's words."""
    if " | " in text and "[" not in text:
        return " or ".join(_type(part) for part in text.split(" | "))
    if text.endswith(" | None"):
        return f"{_type(text.removesuffix(' | None'))} or null"
    if text.startswith(("tuple", "Mapping", "dict")):
        inner = text[text.index("[") + 1 : -1]
        if text.startswith("tuple[tuple[str, Any]") and "..." in text:
            return "object"
        if not text.startswith("tuple"):
            return "object"
        parts = inner.removesuffix(", ...")
        if inner.endswith("..."):
            return f"array of {_type(parts)}"
        return f"[{', '.join(_type(part.strip()) for part in parts.split(','))}]"
    return JSON_TYPES.get(text, text if text in {cls.__name__ for cls in CLASSES} else "object")


def _meanings(text: str) -> dict[str, str]:
    """What the Attributes section of a docstring says of each field."""
    found: dict[str, str] = {}
    if "Attributes:" not in text:
        return found
    names: list[str] = []
    for line in text.split("Attributes:")[1].splitlines():
        match = re.match(r" {4}([a-z_][a-z_, ]*): (.*)", line)
        if match:
            names = [name.strip() for name in match.group(1).split(",")]
            found |= dict.fromkeys(names, match.group(2))
        elif line.startswith("     ") and names:
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return {name: _json(meaning.replace("|", "\\|")) for name, meaning in found.items()}


def _json(text: str) -> str:
    return re.sub(r"\bNone\b", "null", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
