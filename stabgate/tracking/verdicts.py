"""Verdicts as tags on the model version that was tested, for a promotion step that requires ``stabgate.verdict=pass``.

Each gate has a tag of its own, ``stabgate.NAME.verdict``; ``stabgate.verdict`` is "pass" only if all of them are. A
session that ran some of the gates replaces the tags of those, and the others still count; one that ran every gate there
is also drops the tags of gates that its experiment no longer has. A session older than the tags changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stabgate.logged_models import Version, find_version
from stabgate.mlflow_store import is_missing
from stabgate.tracking.described import WORDS, safe_name
from stabgate.verdict.verdicts import Outcome

OVERALL = "stabgate.verdict"
WHEN = "stabgate.verdict.when"
PREFIX, SUFFIX, RUN = "stabgate.", ".verdict", ".run"
PASS = "pass"


@dataclass(frozen=True)
class Known:
    """The verdict of one gate about a model version, and the run that has the details."""

    name: str
    version: str
    gate: str
    verdict: str
    run: str


def tested_version(client: Any, source: Mapping[str, str]) -> Version | None:
    """The version that a measurement was about, in this store; None where it has none, or another by that number."""
    if "name" not in source or "version" not in source:
        return None
    from stabgate.errors import InputError

    try:
        found = find_version(client, f"models:/{source['name']}/{source['version']}")
    except InputError:
        return None
    same = not (found.model_id and source.get("model_id")) or found.model_id == source["model_id"]
    return found if same else None


def tag_of(gate: str) -> str:
    """The tag that holds a gate's verdict."""
    return f"{PREFIX}{safe_name(gate)}{SUFFIX}"


def tag_versions(
    client: Any, known: Sequence[Known], *, experiment: str, created: int, complete: bool, unfinished: bool
) -> None:
    """Write the verdicts of one session.

    Args:
        experiment: where its runs are.
        created: milliseconds since 1970: tags of a later session stay.
        complete: it ran every gate there is.
        unfinished: a test with gates failed before its last one, or did not run: no version passes by it.
    """
    for name, version in sorted({(one.name, one.version) for one in known}):
        mine = [one for one in known if (one.name, one.version) == (name, version)]
        try:
            there = dict(client.get_model_version(name, version).tags)
        except Exception as error:
            if is_missing(error):
                continue
            raise
        if int(there.get(WHEN) or 0) <= created:
            gone = _gone(client, there, mine, experiment) if complete else set()
            _tag(client, name, version, mine, there, gone, unfinished=unfinished)
            client.set_model_version_tag(name, version, WHEN, str(created))


def _tag(
    client: Any,
    name: str,
    version: str,
    mine: Sequence[Known],
    there: Mapping[str, str],
    gone: set[str],
    *,
    unfinished: bool,
) -> None:
    found = {tag_of(one.gate): _worst([o.verdict for o in mine if o.gate == one.gate]) for one in mine}
    others = {tag: value for tag, value in there.items() if _is_of_a_gate(tag) and tag not in found}
    known = [*found.values(), *(value for tag, value in others.items() if tag not in gone)]
    overall = _worst([*known, *([WORDS[Outcome.NOT_MEASURED]] if unfinished else [])])
    if overall != PASS:  # "pass" is written last and taken away first
        client.set_model_version_tag(name, version, OVERALL, overall)
    for tag, verdict in found.items():
        client.set_model_version_tag(name, version, tag, verdict)
    for one in mine:
        client.set_model_version_tag(name, version, tag_of(one.gate).removesuffix(SUFFIX) + RUN, one.run)
    for tag in gone:
        client.delete_model_version_tag(name, version, tag)
        client.delete_model_version_tag(name, version, tag.removesuffix(SUFFIX) + RUN)
    client.set_model_version_tag(name, version, OVERALL, overall)


def _gone(client: Any, there: Mapping[str, str], mine: Sequence[Known], experiment: str) -> set[str]:
    """Tags of gates that the experiment once had and this complete session did not."""
    now = {tag_of(one.gate) for one in mine}
    found = set()
    for tag in there:
        run = there.get(tag.removesuffix(SUFFIX) + RUN)
        if not _is_of_a_gate(tag) or tag in now or run is None:
            continue
        try:
            where = str(client.get_run(run).info.experiment_id)
        except Exception as error:
            if is_missing(error):
                continue
            raise
        if where == experiment:
            found.add(tag)
    return found


def _is_of_a_gate(tag: str) -> bool:
    return tag.startswith(PREFIX) and tag.endswith(SUFFIX) and tag != OVERALL


def _worst(verdicts: Sequence[str]) -> str:
    return next((word for word in WORDS.values() if word in verdicts), "not-measured")
