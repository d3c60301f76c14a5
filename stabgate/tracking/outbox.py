"""A session waits in a folder until all of it has been sent: written whole, removed only afterwards."""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from stabgate.errors import InputError
from stabgate.report.session import SessionReport
from stabgate.tracking.described import Described, described_gate, described_session

SCHEMA = 1
OUTBOX = Path(".stabgate") / "outbox"
MANIFEST = "session.json"
REPORT = "report"  # folder of the parent run's files
RESULTS = "results.json"
MOST_NAMED = 5  # damaged files that a message names
OR_GIVE_UP = "or remove the folder to give the session up"


@dataclass(frozen=True)
class Entry:
    """A session that waits.

    Attributes:
        folder: with everything in it.
        id: of the session; runs are found again by it.
        uri: of the store that it is meant for.
        experiment: name (or ``id:NUMBER``) of the experiment.
        created: milliseconds since 1970; every timestamp of it.
        parent: the run of the session.
        gates: the runs of its gates, in order; the files of number i lie in `files_of(i)`.
        complete: every gate there is came to a verdict in this session.
        files: bytes of every file but the manifest when it was written, by path within the folder.
    """

    folder: Path
    id: str
    uri: str
    experiment: str
    created: int
    parent: Described
    gates: tuple[Described, ...]
    complete: bool
    files: Mapping[str, int] = field(default_factory=dict)  # of an earlier stabgate none is known

    def files_of(self, i: int) -> Path:
        """Folder of the files of gate number i."""
        return self.folder / "gates" / f"{i:04}"


def write(session: SessionReport, outbox: Path, *, uri: str, experiment: str, extra: dict[str, str]) -> Entry:
    """Put a session and the evidence of its gates into the outbox, whole or not at all.

    Args:
        extra: further texts for the parent run's report folder, by file name.

    Raises:
        OSError: the outbox cannot be written to.
    """
    outbox.mkdir(parents=True, exist_ok=True)
    if not (outbox / ".gitignore").exists():
        (outbox / ".gitignore").write_text("*\n")
    session_id = uuid.uuid4().hex
    created = int(datetime.fromisoformat(session.created).timestamp() * 1000)
    gates = tuple(
        described_gate(gate, session, gate_id=f"{session_id}-{i}", session_id=session_id)
        for i, gate in enumerate(session.gates)
    )
    parent = described_session(session, session_id=session_id)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=outbox))
    try:
        entry = Entry(partial, session_id, uri, experiment, created, parent, gates, session.complete)
        for i, gate in enumerate(session.gates):
            home = entry.files_of(i)
            if gate.evidence is not None and Path(gate.evidence).is_dir():
                shutil.copytree(gate.evidence, home)
            home.mkdir(parents=True, exist_ok=True)
            _json(home / "gate.json", replace(gate, evidence=None, details=None).to_json())
            if gate.record is not None:
                _json(home / "record.json", dict(gate.record))
        (partial / REPORT).mkdir()
        session.save(partial / REPORT / RESULTS)
        for name, text in extra.items():
            (partial / REPORT / name).write_text(text, encoding="utf-8")
        entry = replace(entry, files=_sizes(partial))
        plain = {"schema": SCHEMA, **{n: v for n, v in asdict(entry).items() if n != "folder"}}
        _json(partial / MANIFEST, plain)
        final = outbox / f"{created}-{session_id[:12]}"
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return replace(entry, folder=final)


def read(folder: Path) -> Entry:
    """The entry in a folder, every file of which is as it was written; further ones may be there.

    Raises:
        InputError: it is damaged, or of another schema.
    """
    if lacks_manifest(folder):
        raise InputError(
            f"{folder}: damaged, or no session at all: {MANIFEST} is missing; restore the file, {OR_GIVE_UP}"
        )
    try:
        entry = _entry(folder, json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        damage = _damage(entry)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        found = f"without {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"{folder}: damaged: {MANIFEST} cannot be read ({found}); restore the file, {OR_GIVE_UP}"
        ) from error
    if damage:
        named = [*damage[:MOST_NAMED], *([f"{len(damage) - MOST_NAMED} more"] if len(damage) > MOST_NAMED else [])]
        files = "the file" if len(damage) == 1 else "the files"
        raise InputError(f"{folder}: damaged: {'; '.join(named)}; restore {files}, {OR_GIVE_UP}")
    return entry


def _entry(folder: Path, plain: dict[str, Any]) -> Entry:
    schema = plain.pop("schema")
    if schema != SCHEMA:
        raise InputError(
            f"{folder}: of schema {schema!r}, and this stabgate sends {SCHEMA}; send it with the stabgate that wrote "
            f"it, {OR_GIVE_UP}"
        )
    gates = tuple(Described(**gate) for gate in plain.pop("gates"))
    return Entry(folder=folder, parent=Described(**plain.pop("parent")), gates=gates, **plain)


def lacks_manifest(folder: Path) -> bool:
    """Whether there is a folder and no manifest in it: what has just been sent has no folder any more."""
    return not (folder / MANIFEST).exists() and folder.exists()


def waiting(outbox: Path) -> list[Path]:
    """Folders that wait, oldest first, damaged ones too; a dot begins what is half written or sent already."""
    if not outbox.is_dir():
        return []
    return sorted(path for path in outbox.iterdir() if path.is_dir() and not path.name.startswith("."))


def remove(entry: Entry) -> None:
    """Drop what has been sent; killed in between, nothing that looks like a session is left."""
    gone = entry.folder.with_name(f".sent-{entry.folder.name}")
    entry.folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    lock_of(entry.folder).unlink(missing_ok=True)


def lock_of(folder: Path) -> Path:
    """The file that is locked while an entry is sent."""
    return folder.with_name(f".{folder.name}.lock")


def _sizes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
    }


def _damage(entry: Entry) -> list[str]:
    """What has become of each file that is not as it was written."""
    found = []
    for name, size in entry.files.items():
        path = entry.folder / name
        if not path.is_file():
            found.append(f"{name} is missing ({size:,} bytes when it was written)")
        elif path.stat().st_size != size:
            found.append(f"{name} has {path.stat().st_size:,} bytes ({size:,} when it was written)")
    return found


def _json(path: Path, plain: Any) -> None:
    path.write_text(json.dumps(plain, indent=1, default=str, ensure_ascii=False) + "\n", encoding="utf-8")
