"""How a baseline is written: one measurement as text that a person can read in a diff, one line per row or image.

Keys and rows are sorted, scores have a fixed number of digits, and what was measured again with the same outcome gives
the same bytes. Means and variances stand there for the reader; they follow from the counts beside them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stabgate.errors import InputError
from stabgate.measure.record import DIGITS, FASS, K, PairRecord, Record, RowRecord

SCHEMA = 1
AGAIN = "restore it from git, or measure it again with: pytest --stabgate-update"
ERROR = "error"  # status of a pair that could not be computed
REDRAW = re.compile(r"(.*) #(\d+)", re.S)


class NewerError(InputError):
    """A baseline of a later schema: it can be read by a later stabgate, and is not this one's to replace."""


@dataclass(frozen=True)
class Accepted:
    """Who made a measurement the baseline, why, and on which day (ISO 8601)."""

    by: str
    why: str
    on: str

    def __str__(self) -> str:
        return f"accepted on {self.on} by {self.by}: {self.why}"


@dataclass(frozen=True)
class Baseline:
    """A measurement that later ones are compared with."""

    name: str
    accepted: Accepted
    record: Record


def unfit(record: Record) -> str:
    """Why a measurement cannot be a baseline; empty where it can."""
    if record.metric == K:
        missed = [row for row in record.rows if not row.k]
        if missed or not record.rows:
            first = f" (row {missed[0].id}: {missed[0].reason or 'no reason given'})" if missed else ""
            return f"{len(missed)} of {len(record.rows)} rows were not measured{first}"
        if any(sum(row.halves) < 2 for row in record.rows):
            return f"{record.runs} runs have no half-samples, by which later runs are compared: measure at least 4"
        return ""
    errors = [pair for pair in record.pairs if pair.status == ERROR]
    if errors:
        first_pair = f"image {errors[0].image}, {errors[0].perturbation}"
        return f"{len(errors)} of {len(record.pairs)} pairs have an error (the first: {first_pair})"
    return "" if record.value is not None else "no pair has a score"


def to_text(baseline: Baseline) -> str:
    """The file's content."""
    plain = baseline.record.to_json()
    del plain["schema"]
    if baseline.record.metric == K:
        plain["rows"] = [_row_line(row, baseline.record.features) for row in baseline.record.rows]
    else:
        del plain["pairs"]
        plain["images"] = _image_lines(baseline.record.pairs)
    plain["value"] = _Line(_fixed(baseline.record.value or 0.0))
    document = {"schema": SCHEMA, "name": baseline.name, "accepted": asdict(baseline.accepted), "record": plain}
    text = _emit(document) + "\n"
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def from_text(text: str, *, source: str) -> Baseline:
    """The baseline that `to_text` wrote.

    Raises:
        InputError: not such a text, or one that does not fit together; the message names `source` and the field.
        NewerError: a text of a later schema.
    """
    found = _Reader(_parsed(text, source), source)
    schema = found.value.get("schema") if isinstance(found.value, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise NewerError(f"{source}: a baseline of schema {schema}; this stabgate reads {SCHEMA}: update stabgate")
    if type(schema) is not int or schema != SCHEMA:
        raise InputError(f"{source}: not a baseline of schema {SCHEMA} (found schema {schema!r}); {AGAIN}")
    accepted = found.part("accepted")
    return Baseline(
        found.text("name"),
        Accepted(accepted.text("by"), accepted.text("why"), accepted.text("on")),
        _record(found.part("record")),
    )


def _parsed(text: str, source: str) -> Any:
    if re.search(r"^(<{7}|={7}|>{7})( |$)", text, re.M):
        raise InputError(
            f"{source}: holds a merge conflict; take a side with git checkout --ours or --theirs, or measure it again "
            "with: pytest --stabgate-update"
        )
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{source}: damaged, not JSON ({error}); {AGAIN}") from error


class _Reader:
    """Fields of a JSON object, each checked; errors name the file and the field."""

    def __init__(self, value: Any, source: str, path: str = "") -> None:
        self.value, self._source, self._path = value, source, path
        if not isinstance(value, dict):
            raise self.wrong("", "an object")

    def wrong(self, field: str, expected: str) -> InputError:
        where = f"{self._path}.{field}".strip(".") or "the document"
        value = self.value.get(field, "nothing") if field and isinstance(self.value, dict) else self.value
        shown = repr(value)
        return InputError(
            f"{self._source}: {where}: {expected} is needed, found {shown[:60]}{'…' * (len(shown) > 60)}; {AGAIN}"
        )

    def part(self, field: str) -> _Reader:
        if not isinstance(self.value.get(field), dict):
            raise self.wrong(field, "an object")
        return _Reader(self.value[field], self._source, f"{self._path}.{field}".strip("."))

    def parts(self, field: str) -> list[_Reader]:
        self._list(field)
        return [_Reader(item, self._source, f"{self._path}.{field}[{i}]") for i, item in enumerate(self.value[field])]

    def text(self, field: str) -> str:
        if not isinstance(self.value.get(field), str):
            raise self.wrong(field, "a text")
        return str(self.value[field])

    def text_or_none(self, field: str) -> str | None:
        return None if field in self.value and self.value[field] is None else self.text(field)

    def texts(self, field: str) -> tuple[str, ...]:
        self._list(field)
        if not all(isinstance(item, str) for item in self.value[field]):
            raise self.wrong(field, "a list of texts")
        return tuple(self.value[field])

    def integer(self, field: str, least: int, most: float = math.inf) -> int:
        value = self.value.get(field)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(field, f"an integer of at least {least}" + (f" and at most {most}" if most < 1e9 else ""))
        return value

    def truth(self, field: str) -> bool:
        if not isinstance(self.value.get(field), bool):
            raise self.wrong(field, "true or false")
        return bool(self.value[field])

    def follows(self, field: str, expected: float) -> None:
        """A number that stands there for the reader must be what the others give."""
        value = self.value.get(field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or _fixed(value) != _fixed(expected):
            raise self.wrong(field, f"{_fixed(expected)}, which follows from the other fields,")

    def only(self, *fields: str) -> None:
        for field in self.value:
            if field not in fields:
                raise self.wrong(field, f"one of the fields {', '.join(sorted(fields))}")

    def _list(self, field: str) -> None:
        if not isinstance(self.value.get(field), list):
            raise self.wrong(field, "a list")


def _record(found: _Reader) -> Record:
    metric = found.text("metric")
    if metric not in (K, FASS):
        raise found.wrong("metric", f"{K} or {FASS}")
    features = found.texts("features")
    rows = [_row(row, features) for row in found.parts("rows")] if metric == K else []
    pairs = [pair for image in found.parts("images") for pair in _pairs(image)] if metric == FASS else []
    for field, ids in (
        ("rows", [row.id for row in rows]),
        ("images", [(p.image, p.perturbation, p.draw) for p in pairs]),
    ):
        if len(set(ids)) < len(ids):
            raise found.wrong(field, f"{field} that stand there once each")
    record = Record(
        metric=metric,
        runs=found.integer("runs", 1),
        seed=found.integer("seed", 0),
        settings=found.part("settings").value,
        explainer=found.part("explainer").value,
        model=found.text("model"),
        model_hash=found.text_or_none("model_hash"),
        columns_hash=found.text_or_none("columns_hash"),
        versions=found.part("versions").value,
        rows=tuple(sorted(rows, key=lambda row: row.id)),
        pairs=tuple(sorted(pairs, key=lambda pair: (pair.image, pair.perturbation, pair.draw))),
        features=features,
        population=found.truth("population"),
        source=found.part("source").value if "source" in found.value else {},
    )
    found.follows("value", record.value or 0.0)
    if unfit(record):
        raise found.wrong("rows" if metric == K else "images", f"a whole measurement ({unfit(record)})")
    return record


def _row(found: _Reader, features: Sequence[str]) -> RowRecord:
    found.only("hash", "halves", "id", "k", "leading", "mean", "target", "variance")
    n = len(features)
    counts = found.part("halves").value
    if not all(re.fullmatch("[1-9][0-9]*", k) and type(c) is int and c > 0 for k, c in counts.items()):
        raise found.wrong("halves", "an object of k and its count")
    most = max(map(int, counts), default=0)
    leading = found.value.get("leading")
    if most > n:
        raise found.wrong("halves", f"k of at most {n} features")
    if not isinstance(leading, list) or not all(type(j) is int and 0 <= j < n for j in leading):
        raise found.wrong("leading", f"a list of positions among the {n} features, from 0,")
    row = RowRecord(
        id=found.text("id"),
        hash=found.text("hash"),
        target=found.text("target"),
        k=found.integer("k", 1, n),
        halves=tuple(counts.get(str(k), 0) for k in range(1, most + 1)),
        leading=tuple(features[j] for j in leading),
    )
    found.follows("mean", row.mean)
    found.follows("variance", row.variance)
    return row


def _pairs(found: _Reader) -> list[PairRecord]:
    found.only("hash", "id", "scores")
    pairs = []
    for label, score in found.part("scores").value.items():
        redrawn = REDRAW.fullmatch(label)
        name, draw = (redrawn[1], int(redrawn[2])) if redrawn else (label, 0)
        number = isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score)
        if not number and (not isinstance(score, str) or score == RETAINED):
            raise found.wrong("scores", "a number, or what became of the pair,")
        pairs.append(
            PairRecord(
                found.text("id"),
                found.text("hash"),
                name,
                draw,
                RETAINED if number else str(score),
                float(score) if number else None,
            )
        )
    return pairs


RETAINED = "retained"


class _Line(str):
    """Text that is JSON already."""


def _row_line(row: RowRecord, features: Sequence[str]) -> _Line:
    place = {name: j for j, name in enumerate(features)}
    halves = ", ".join(f'"{k}": {count}' for k, count in enumerate(row.halves, 1) if count)
    parts = {
        "halves": f"{{{halves}}}",
        "hash": _json(row.hash),
        "id": _json(row.id),
        "k": str(row.k),
        "leading": _json([place[name] for name in row.leading]),
        "mean": _fixed(row.mean),
        "target": _json(row.target),
        "variance": _fixed(row.variance),
    }
    return _Line("{" + ", ".join(f'"{name}": {value}' for name, value in parts.items()) + "}")


def _image_lines(pairs: Sequence[PairRecord]) -> list[_Line]:
    """One line per image; pairs of the second draw of a perturbation and of later ones have its number behind them."""
    scores: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        label = (
            f"{pair.perturbation} #{pair.draw}"
            if pair.draw or REDRAW.fullmatch(pair.perturbation)
            else pair.perturbation
        )
        value = _json(pair.status) if pair.score is None else _fixed(pair.score)
        scores.setdefault((pair.image, pair.hash), []).append(f"{_json(label)}: {value}")
    return [
        _Line(f'{{"hash": {_json(sha)}, "id": {_json(image)}, "scores": {{{", ".join(found)}}}}}')
        for (image, sha), found in scores.items()
    ]


def _fixed(value: float) -> str:
    text = f"{value:.{DIGITS}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)


def _emit(value: Any, pad: str = "") -> str:
    """Indented JSON: a key of an object a line, an item of a list of texts or objects a line, numbers side by side."""
    if isinstance(value, _Line):
        return str(value)
    deeper = pad + " "
    if isinstance(value, Mapping) and value:
        lines = [f"{deeper}{_json(str(key))}: {_emit(value[key], deeper)}" for key in sorted(value)]
        return "{\n" + ",\n".join(lines) + f"\n{pad}}}"
    if isinstance(value, (list, tuple)) and any(isinstance(item, (str, Mapping)) for item in value):
        lines = [deeper + (str(item) if isinstance(item, _Line) else _json(item)) for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{pad}]"
    return _json(value)
