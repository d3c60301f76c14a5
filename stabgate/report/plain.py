"""Text of others (names, reasons) as one line that no terminal, log or file can be led astray with."""

from __future__ import annotations

import unicodedata

KEPT = "\u200c\u200d"  # joiners: scripts and emoji are spelt with them
UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # control, direction, half characters, line separators


def plain(text: str) -> str:
    """`text` with everything that moves a cursor, turns the direction or ends a line written as an escape."""
    if text.isprintable():
        return text
    return "".join(_escaped(c) if _unsafe(c) else c for c in text)


def cells(text: str) -> int:
    """How many columns a terminal needs for it."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def fit(text: str, most: int) -> str:
    """`text` in at most `most` columns, cut in the middle: the ends of a name tell most."""
    if cells(text) <= most:
        return text
    if most <= 1:
        return "…"[:most]
    head, tail = most - 1 - (most - 1) // 2, (most - 1) // 2
    return _first(text, head) + "…" + _first(text[::-1], tail)[::-1]


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` with blanks up to that many columns, in front of it where it stands to the right."""
    blanks = " " * (columns - cells(text))
    return blanks + text if right else text + blanks


def _first(text: str, columns: int) -> str:
    taken = ""
    for c in text:
        if cells(taken + c) > columns:
            break
        taken += c
    return taken


def _unsafe(c: str) -> bool:
    return (not c.isascii() and unicodedata.category(c) in UNSAFE and c not in KEPT) or c < " " or c == "\x7f"


def _escaped(c: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c) or c.encode("unicode_escape", "surrogatepass").decode("ascii")


def _columns(c: str) -> int:
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1
