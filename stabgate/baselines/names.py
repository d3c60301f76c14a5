"""What a baseline may be called: a name becomes a path, and must be the same file on every system."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from stabgate.errors import InputError

LONGEST = 100  # characters; with folder and ending below the 260 of Windows
ALLOWED = re.compile(r"[A-Za-z0-9._-]+")
DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
ENDINGS = (".json", ".npz", ".partial")  # of the files themselves, and of unfinished ones, which git is told to ignore
RESERVED = frozenset({"waivers"})  # waivers.json lies in the same folder


def check_name(name: Any) -> str:
    """The name, if it can be that of a baseline: segments of letters, digits, ".", "_" and "-", joined by "/".

    Raises:
        InputError: it cannot; the message says why and suggests one that can.
    """
    if not isinstance(name, str):
        raise InputError(f"name={name!r}: the name of a baseline is a text such as name='credit/shap'")
    problem = _problem(name)
    if problem:
        shown = repr(name[: 2 * LONGEST])
        raise InputError(f"name={shown} cannot be that of a baseline: {problem}; try name={safe_name(name)!r}")
    return name


def is_address(text: str) -> bool:
    """Whether a text says where a measurement is (a path to a file, a URI) and is no name."""
    return text.lower().endswith(".json") or ":/" in text


def same_name(name: str) -> str:
    """What names have in common that differ only in case, which some file systems take for one."""
    return name.casefold()


def clash(a: str, b: str) -> bool:
    """Whether two names, or folders in them, differ only in case."""
    for mine, other in zip(a.split("/"), b.split("/"), strict=False):
        if mine != other:
            return mine.casefold() == other.casefold()
    return False


def safe_name(text: str) -> str:
    """A name that is allowed and reads like `text`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = "/".join(filter(None, map(_safe_segment, re.split(r"[/\\]+|::", plain)))) or "gate"
    if len(name) > LONGEST:
        return safe_name(name[: LONGEST // 2].rstrip("./-"))
    return f"{name}-gate" if name.lower() in RESERVED else name


def _safe_segment(segment: str) -> str:
    segment = re.sub(r"[^A-Za-z0-9._-]+", "-", segment).strip(".-")
    while segment.lower().endswith(ENDINGS):
        segment = segment.rpartition(".")[0].strip(".-")
    return segment.replace(".", "-") + "-gate" if _device(segment) else segment


def _device(segment: str) -> bool:
    return segment.split(".")[0].lower() in DEVICES


def _problem(name: str) -> str:
    if not name:
        return "it is empty"
    if len(name) > LONGEST:
        return f"it has {len(name)} characters, at most {LONGEST} fit every file system"
    if "\\" in name:
        return "it has a backslash; folders are separated by /"
    for segment in name.split("/"):
        if not segment:
            return "it starts or ends with a slash, or has two in a row"
        if not ALLOWED.fullmatch(segment):
            odd = next(c for c in segment if not ALLOWED.fullmatch(c))
            return f"it has {odd!r}; letters (a-z, A-Z), digits, '.', '_', '-' are safe on every file system"
        if segment[0] in ".-":
            return f"{segment!r} starts with {segment[0]!r}"
        if segment[-1] == ".":
            return f"{segment!r} ends with a dot"
        if _device(segment):
            return f"{segment!r} is a device on Windows"
        if segment.lower().endswith(ENDINGS):
            return f"{segment!r} ends like a file that stabgate writes; leave the ending away"
    if name.lower() in RESERVED:
        return f"{name}.json is another file in the same folder"
    return ""
