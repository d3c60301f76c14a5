"""Messages that are complete where they are short, and cut visibly where they would fill a file."""

from __future__ import annotations

LIMIT = 8000  # bytes of UTF-8
WHERE = "pytest --stabgate-json=FILE or stabgate run --json=FILE writes all of it"


def bounded(message: str, limit: int = LIMIT) -> str:
    """`message` in at most `limit` bytes: its beginning, what was cut and where the rest is, and its last line.

    The last line of a failed gate is the command that replays it.
    """
    size = len(message.encode("utf-8", "replace"))
    if size <= limit:
        return message
    *_, last = message.splitlines()
    last = "\n" + last if len(last) < limit // 8 else ""
    note = f"\n  ... cut here: {size:,} bytes in all; {WHERE}{last}"
    room = limit - len(note.encode("utf-8", "replace"))
    return message.encode("utf-8", "replace")[:room].decode("utf-8", "ignore").rstrip() + note
