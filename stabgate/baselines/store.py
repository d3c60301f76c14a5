"""`Baselines`: a folder of them, one file per name; written whole, one writer at a time, deleted by `remove` only."""

from __future__ import annotations

import os
import zipfile
from datetime import date
from io import BytesIO
from pathlib import Path

from stabgate.baselines.document import Accepted, Baseline, NewerError, from_text, to_text, unfit
from stabgate.baselines.folder import sweep, whoami, writing
from stabgate.baselines.names import check_name, clash
from stabgate.baselines.waivers import WAIVERS
from stabgate.errors import InputError
from stabgate.files import write_bytes, write_text
from stabgate.measure.record import Record


class Baselines:
    """The baselines in a folder.

    ``credit/shap`` is ``credit/shap.json`` in it, with matrices in ``credit/shap.npz`` that git ignores. Names that
    differ only in case are the same name.

    Args:
        folder: need not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, name: str) -> Path:
        """Where the baseline of this name is, or would be.

        Raises:
            InputError: it cannot be a name.
        """
        return self.folder / f"{check_name(name)}.json"

    def has(self, name: str) -> bool:
        """Whether there is a baseline of this name.

        Raises:
            InputError: it cannot be a name, or one that differs only in case is there.
        """
        path = self.path(name)
        if path.is_dir():
            raise InputError(f"{path}: is a folder, where the baseline {name!r} would be a file; move it away")
        other = next((found for found in self.names() if clash(found, name)), None)
        if other is not None:
            raise InputError(
                f"{self.folder}: has a baseline {other!r} and none {name!r}; names and folders that differ only in "
                "case are the same on some systems: write them alike"
            )
        return path.is_file()

    def read(self, name: str) -> Baseline:
        """The baseline of this name.

        Raises:
            InputError: there is none, or its file is damaged, of another schema or of another name.
        """
        if not self.has(name):
            known = ", ".join(self.names()[:5]) or "none"
            raise InputError(
                f"no baseline {name!r} in {self.folder} (there: {known}); write it with: pytest --stabgate-update-new"
            )
        path = self.path(name)
        found = load(path)
        if found.name != name:
            raise InputError(
                f"{path}: name: is {found.name!r} and belongs to another place; a baseline that is renamed is measured "
                "anew: pytest --stabgate-update"
            )
        return found

    def names(self) -> list[str]:
        """What files there are, sorted; whether they can be read is another question."""
        found = (
            path.relative_to(self.folder).with_suffix("").as_posix()
            for path in self.folder.rglob("*.json")
            if path.is_file() and path != self.folder / WAIVERS
        )
        return sorted(name for name in found if not any(part.startswith(".") for part in name.split("/")))

    def write(self, name: str, record: Record, why: str, *, by: str | None = None, evidence: str | None = None) -> bool:
        """Make a measurement the baseline; False where it was that already, and the file is left as it is.

        Args:
            why: it becomes the baseline, for whoever asks later.
            by: who says so; git's user by default.
            evidence: folder with arrays (.npz) that go beside it. Without it, the matrices of the measurement that is
                replaced go, as they are no longer those of the baseline.

        Raises:
            InputError: the measurement cannot be a baseline, the name cannot be one, the folder not be written to, or
                what is there is of a later schema.
        """
        problem = unfit(record)
        if problem:
            raise InputError(f"baseline {name!r} is not written: {problem}")
        path = self.path(name)
        with writing(self.folder):
            before = self._known(name)
            matrices = _merged(evidence)
            if before == record:
                if matrices is not None and not path.with_suffix(".npz").exists():
                    write_bytes(path.with_suffix(".npz"), matrices)
                return False
            sweep(path)
            sweep(path.with_suffix(".npz"))
            if matrices is not None:
                write_bytes(path.with_suffix(".npz"), matrices)
            else:
                path.with_suffix(".npz").unlink(missing_ok=True)
            accepted = Accepted(by or whoami(), " ".join(why.split()), date.today().isoformat())
            write_text(path, to_text(Baseline(name, accepted, record)))
            return True

    def may_write(self, name: str) -> bool:
        """Whether there is a baseline of this name already, which `write` may replace.

        Raises:
            InputError: the name cannot be one, or what is there is a folder or of a later schema.
        """
        self._known(name)
        return self.has(name)

    def remove(self, name: str) -> list[Path]:
        """Delete a baseline and its matrices; returns the files that went."""
        path = self.path(name)
        with writing(self.folder):
            gone = [file for file in (path, path.with_suffix(".npz")) if file.exists()]
            for file in gone:
                file.unlink()
            for parent in path.relative_to(self.folder).parents:
                home = self.folder / parent
                if home != self.folder and not any(home.iterdir()):
                    home.rmdir()
        return gone

    def _known(self, name: str) -> Record | None:
        """What is there now, if it can be read; what a later stabgate wrote is not replaced."""
        if not self.has(name):
            return None
        try:
            return self.read(name).record
        except NewerError:
            raise
        except InputError:
            return None


def load(path: str | os.PathLike[str]) -> Baseline:
    """The baseline in a file.

    Raises:
        InputError: there is none, it is damaged, or of another schema.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: damaged, not UTF-8 ({error}); restore it from git") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    return from_text(text, source=str(path))


def _merged(evidence: str | None) -> bytes | None:
    """All arrays of a folder in one .npz."""
    archives = sorted(Path(evidence).glob("*.npz")) if evidence else []
    if not archives:
        return None
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as whole:
        for archive in archives:
            with zipfile.ZipFile(archive) as part:
                for member in part.namelist():
                    if member not in whole.namelist():
                        whole.writestr(member, part.read(member))
    return content.getvalue()
