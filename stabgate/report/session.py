"""What a run of gates found, as one document: every gate with its verdict, schema-versioned, plain JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.verdict.verdicts import REQUIREMENTS, Outcome, Verdict

SCHEMA = 1


@dataclass(frozen=True)
class GateReport:
    """One gate: what it asked, what was found, and where.

    Attributes:
        name: of the gate.
        kind: "k-stability", "FASS" or "regression".
        asked: the requirement in words.
        test: node id of the test, or "" from the command line.
        place: file and line of the assertion.
        verdict: None where an error came before one (`message` says which); that counts as NOT MEASURED.
        message: why it did not pass; empty where it did.
        baseline: name of the baseline that it was compared with; empty for a gate of a floor.
        record: `stabgate.measure.record.Record` of what was measured, as plain JSON.
        before: the record of the baseline that it was compared with.
        source: where its model came from, if it was given by its address: uri, name, version, alias, model_id, run_id.
        waived: what the waiver that lets it through says; empty where there is none.
        warns: INCONCLUSIVE only warns here.
        adopts: "new" or "update": what was measured becomes the baseline, and nothing fails; empty elsewhere.
        details: what the HTML report shows beside the verdict (`stabgate.report.details`).
        evidence: folder with the arrays of this gate while the session lasts; not part of the document.
    """

    name: str
    kind: str
    asked: str
    test: str
    verdict: Verdict | None
    message: str = ""
    place: tuple[str, int] | None = None
    baseline: str = ""
    record: Mapping[str, Any] | None = None
    before: Mapping[str, Any] | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    waived: str = ""
    warns: bool = False
    adopts: str = ""
    details: Mapping[str, Any] | None = None
    evidence: str | None = None

    @property
    def named(self) -> bool:
        """Whether it was given its name; otherwise the test's stands for it, which tests of other files may share."""
        return self.name.split(" (")[0] != self.test.split("::")[-1].split(" (")[0]

    @property
    def outcome(self) -> Outcome:
        """The verdict's, or NOT MEASURED where an error came before one."""
        return Outcome.NOT_MEASURED if self.verdict is None else self.verdict.outcome

    @property
    def blocks(self) -> bool:
        """It fails the build: it did not pass, and no waiver, no policy and no new baseline lets it through."""
        tolerated = self.outcome is Outcome.INCONCLUSIVE and self.warns
        return not (self.outcome is Outcome.PASS or self.waived or self.adopts or tolerated)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reads them."""
        verdict = None if self.verdict is None else verdict_to_json(self.verdict)
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "verdict": verdict}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> GateReport:
        """The gate that `to_json` wrote."""
        found = _typed(cls, plain)
        if found.get("verdict") is not None:
            found["verdict"] = verdict_from_json(found["verdict"])
        if found.get("place") is not None:
            found["place"] = tuple(found["place"])
        return cls(**found)


@dataclass(frozen=True)
class SessionReport:
    """All gates of one run.

    Attributes:
        gates: problems first, then by test and name.
        complete: every gate there is was collected and came to a verdict: nothing was deselected, skipped, sharded
            away, interrupted or left out by an error. Only then may baselines that no gate used be called unused.
        incomplete_because: why not; empty where it is complete.
        unfinished: tests with gates that failed before their last gate or did not run, files that could not be
            collected, workers that crashed: whatever the gates there are say, this is no session that passed.
        created: time in UTC, ISO 8601.
        settings: of the run: runs, seed, threshold, ...
        environment: versions, platform, git commit, URL of the CI job where there is one.
        baselines: folder of the baselines, from the top of the git repository (or the project's root folder).
        stored: names of the baselines that were in it when the run ended.
    """

    gates: tuple[GateReport, ...]
    complete: bool
    incomplete_because: str
    created: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    baselines: str = ""
    stored: tuple[str, ...] = ()
    unfinished: str = ""
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reads them."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**plain, "gates": [replace(gate, evidence=None).to_json() for gate in self.gates]}

    @classmethod
    def from_json(cls, plain: Any, *, source: str = "report") -> SessionReport:
        """The session that `to_json` wrote.

        Raises:
            InputError: not such a document, or of another schema.
        """
        schema = plain.get("schema") if isinstance(plain, Mapping) else None
        if type(schema) is not int or schema != SCHEMA or "gates" not in plain:
            what = "a baseline" if "accepted" in (plain or ()) else f"found {schema!r}"
            raise InputError(
                f"{source}: not a stabgate report of schema {SCHEMA} ({what}); write one with: "
                "pytest --stabgate-json=results.json"
            )
        try:
            found = _typed(cls, plain)
            gates = tuple(GateReport.from_json(gate) for gate in found["gates"])
            return cls(**{**found, "gates": gates, "stored": tuple(found.get("stored", ()))})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{source}: a stabgate report that cannot be read ({error!r})") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document, whole or not at all."""
        from stabgate.files import write_text

        write_text(Path(path), json.dumps(self.to_json(), indent=1, allow_nan=False, default=str) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SessionReport:
        """Read a document.

        Raises:
            InputError: there is none, it is damaged, or of another schema.
        """
        try:
            plain = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refused)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
        except ValueError as error:
            raise InputError(f"{path}: not JSON ({error})") from error
        return cls.from_json(plain, source=str(path))


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


# What a field of a dataclass may be, by its annotation; others are read further down, or are free.
KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


def _typed(cls: type, plain: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass as JSON has them.

    Raises:
        ValueError: one is of another type than its annotation says.
    """
    found = dict(plain)
    for one in fields(cls):
        kinds = KINDS.get(str(one.type))
        if kinds is None or one.name not in found:
            continue
        value = found[one.name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{cls.__name__}.{one.name} is {value!r}")
    return found


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain JSON values; `verdict_from_json` reads them."""
    plain = asdict(verdict)
    kind = next(name for name, kind in REQUIREMENTS.items() if type(verdict.requirement) is kind)
    return {**plain, "requirement": {"kind": kind, **plain["requirement"]}, "facts": _finite(dict(verdict.facts))}


def verdict_from_json(plain: Mapping[str, Any]) -> Verdict:
    """The verdict that `verdict_to_json` wrote."""
    found = _typed(Verdict, plain)
    requirement = dict(found["requirement"])
    kind = REQUIREMENTS[requirement.pop("kind")]
    found["requirement"] = kind(**{name: _tuples(value) for name, value in _typed(kind, requirement).items()})
    found["outcome"] = Outcome(found["outcome"])
    found["interval"] = None if found["interval"] is None else tuple(found["interval"])
    found["cost"] = Cost(**_typed(Cost, found["cost"]))
    found |= {name: tuple(found[name]) for name in ("reasons", "notes")}
    found["facts"] = tuple((name, _tuples(value)) for name, value in found["facts"].items())
    return Verdict(**found)


def environment() -> dict[str, str]:
    """Versions, platform, git commit and CI job of this process."""
    from stabgate import __version__

    found = {
        "stabgate": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = numpy.__version__
    commit = os.environ.get("GITHUB_SHA") or os.environ.get("CI_COMMIT_SHA") or os.environ.get("GIT_COMMIT")
    commit = commit or _git("rev-parse", "HEAD")
    if commit:
        found["commit"] = commit
    job = os.environ.get("CI_JOB_URL") or os.environ.get("BUILD_URL") or _github_job()
    if job:
        found["job"] = job
    return found


def _github_job() -> str:
    run = os.environ.get("GITHUB_RUN_ID")
    if not run:
        return ""
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    return f"{server}/{os.environ.get('GITHUB_REPOSITORY', '')}/actions/runs/{run}"


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value


def ordered(gates: Sequence[GateReport]) -> tuple[GateReport, ...]:
    """Problems first, then by test, then as they came."""
    from stabgate.report.text import ORDER

    return tuple(sorted(gates, key=lambda gate: (ORDER[gate.outcome], gate.test)))
