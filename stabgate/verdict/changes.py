"""What changed between two measurements beside the number: who leads, in which order, on how many rows; retention."""

from __future__ import annotations

from collections import Counter

from stabgate.measure.fass.pairs import RETAINED
from stabgate.measure.record import K, Record
from stabgate.verdict.numbers import percent

LEADERS = 3  # how many leading features are watched where no k was asked for
SHOWN = 5  # features or perturbations that are named; the rest is counted


def changes(now: Record, before: Record, leaders: int | None = None) -> tuple[str, ...]:
    """Changes in words, the most frequent first; empty where nothing changed.

    Args:
        leaders: how many leading features to watch (k-stability); at most as many as a record keeps.
    """
    return _leading(now, before, leaders or LEADERS) if now.metric == K else _retention(now, before)


def _leading(now: Record, before: Record, leaders: int) -> tuple[str, ...]:
    earlier = {row.id: row.leading for row in before.rows if row.k}
    both = [(earlier[row.id], row.leading) for row in now.rows if row.k and row.id in earlier]
    if not both:
        return ()
    top = min(leaders, *(len(leading) for pair in both for leading in pair))
    left: Counter[str] = Counter()
    entered: Counter[str] = Counter()
    turned = 0
    for old, new in ((a[:top], b[:top]) for a, b in both):
        left.update(set(old) - set(new))
        entered.update(set(new) - set(old))
        turned += set(old) == set(new) and old != new
    lines = [*_counted(left, "left", top, len(both)), *_counted(entered, "entered", top, len(both))]
    if turned:
        lines.append(f"the order of the first {top} changed on {turned} of {len(both)} rows")
    return tuple(lines)


def _counted(counts: Counter[str], verb: str, top: int, rows: int) -> list[str]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{name!r} {verb} the first {top} on {count} of {rows} rows" for name, count in ranked[:SHOWN]]
    if len(ranked) > SHOWN:
        lines.append(f"and {len(ranked) - SHOWN} more features {verb} the first {top}")
    return lines


def _retention(now: Record, before: Record) -> tuple[str, ...]:
    mine, theirs = _retained(now), _retained(before)
    moved = sorted(
        (name for name in mine if name in theirs and mine[name] != theirs[name]),
        key=lambda name: (-abs(mine[name] - theirs[name]), name),
    )
    lines = [
        f"retention of {name} {'fell' if mine[name] < theirs[name] else 'rose'} from "
        f"{percent(round(theirs[name], 3))} to {percent(round(mine[name], 3))}"
        for name in moved[:SHOWN]
    ]
    if len(moved) > SHOWN:
        lines.append(f"and retention of {len(moved) - SHOWN} more perturbations changed")
    return tuple(lines)


def _retained(record: Record) -> dict[str, float]:
    attempted = Counter(pair.perturbation for pair in record.pairs)
    retained = Counter(pair.perturbation for pair in record.pairs if pair.status == RETAINED)
    return {name: retained[name] / count for name, count in attempted.items()}
