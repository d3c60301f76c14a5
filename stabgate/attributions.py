"""The array that everything is computed from: attributions of repeated runs, with labels and provenance."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stabgate.cost import Cost
from stabgate.errors import InputError

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Attributions:
    """Signed attributions of m runs on N instances over n features.

    Attributes:
        values: float64 ``(runs, instances, features)``, in the explainer's own units; NaN throughout an instance
            that could not be measured.
        features: n names.
        instances: N row ids.
        seeds: uint32 ``(runs, instances)``, the seed that each run of each instance was given.
        targets: N labels (or numbers) of the explained output.
        failures: why an instance was not measured, by row id.
        provenance: explainer, its settings, versions: what is needed to repeat the measurement. Plain JSON values.
        cost: model rows, calls and seconds.

    Raises:
        InputError: shapes and labels do not fit each other, or a measured instance holds NaN or infinite values.
    """

    values: NDArray[np.float64]
    features: tuple[str, ...]
    instances: tuple[Hashable, ...]
    seeds: NDArray[np.uint32]
    targets: tuple[Any, ...] = ()
    failures: Mapping[Hashable, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.float64)
        if values.ndim != 3:
            raise InputError(f"attributions have shape {values.shape}; expected (runs, instances, features)")
        runs, instances, features = values.shape
        for name, found, expected in (
            ("features", len(self.features), features),
            ("instances", len(self.instances), instances),
        ):
            if found != expected:
                raise InputError(f"attributions have {expected} {name} and {found} names for them")
        if len(set(self.features)) != features:
            raise InputError("feature names of attributions must be unique")
        if self.seeds.shape != (runs, instances):
            raise InputError(f"seeds have shape {self.seeds.shape}; expected {(runs, instances)} (runs, instances)")
        unknown = [row for row in self.failures if row not in self.instances]
        if unknown:
            raise InputError(f"failures name row {unknown[0]!r}, which is not among the instances")
        object.__setattr__(self, "values", values)
        bad = ~np.isfinite(values[:, self.measured])
        if bad.any():
            run, i, j = (int(v) for v in np.argwhere(bad)[0])
            row = [r for r, m in zip(self.instances, self.measured, strict=True) if m][i]
            raise InputError(
                f"attribution of feature {self.features[j]!r} is not finite in run {run} of row {row!r}; name the row "
                "in failures if it could not be measured"
            )

    @property
    def runs(self) -> int:
        """m, the number of runs."""
        return int(self.values.shape[0])

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Boolean ``(instances,)``: which instances have all their runs."""
        return np.array([row not in self.failures for row in self.instances], dtype=bool)

    def thin(self, runs: int) -> Attributions:
        """The first `runs` runs only: k from different numbers of runs is not comparable ([K] eq. 2, KDE bias)."""
        if not 1 <= runs <= self.runs:
            raise InputError(f"runs={runs}: these attributions have {self.runs} runs")
        return replace(self, values=self.values[:runs], seeds=self.seeds[:runs])

    def grouped(self, groups: Mapping[str, Sequence[str]], *, add: bool = True) -> Attributions:
        """Attributions with some features put together, each group standing where its first member stood.

        Args:
            groups: names of the members by the name of the group.
            add: sum the members' attributions; False takes the one of largest magnitude (shares do not add up).

        Raises:
            InputError: an unknown or repeated member, an empty group, a group called like another feature.
        """
        positions = group_positions(self.features, groups)
        where = {members[0]: name for name, members in positions.items()}
        inside = {member for members in positions.values() for member in members}
        columns, names = [], []
        for j, feature in enumerate(self.features):
            if j in where:
                members = self.values[:, :, positions[where[j]]]
                largest = np.abs(members).argmax(axis=2)[:, :, None]
                columns.append(members.sum(axis=2) if add else np.take_along_axis(members, largest, 2)[:, :, 0])
                names.append(where[j])
            elif j not in inside:
                columns.append(self.values[:, :, j])
                names.append(feature)
        record = {**self.provenance, "groups": {name: list(map(str, members)) for name, members in groups.items()}}
        return replace(self, values=np.stack(columns, axis=2), features=tuple(names), provenance=record)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one compressed .npz, complete or not at all. It holds arrays and JSON text, never a pickle."""
        path = Path(path)
        labels = {
            "schema": SCHEMA,
            "features": list(self.features),
            "instances": [_plain(row) for row in self.instances],
            "targets": [_plain(target) for target in self.targets],
            "failures": [[_plain(row), reason] for row, reason in self.failures.items()],
            "provenance": dict(self.provenance),
            "cost": asdict(self.cost),
        }
        text = np.frombuffer(json.dumps(labels, allow_nan=False).encode(), dtype=np.uint8)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                np.savez_compressed(file, values=self.values, seeds=self.seeds, labels=text)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Attributions:
        """Read what `save` wrote.

        Raises:
            InputError: the file is missing, damaged, or of a newer schema.
        """
        try:
            with np.load(path, allow_pickle=False) as archive:
                labels = json.loads(bytes(archive["labels"]).decode())
                values, seeds = archive["values"], archive["seeds"]
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file") from error
        except Exception as error:
            raise InputError(f"{path}: not an attributions file, or damaged ({error})") from error
        if labels.get("schema") != SCHEMA:
            raise InputError(
                f"{path}: attributions of schema {labels.get('schema')}, this stabgate reads {SCHEMA}; update stabgate"
            )
        return cls(
            values,
            tuple(labels["features"]),
            tuple(_hashable(row) for row in labels["instances"]),
            seeds.astype(np.uint32),
            tuple(_hashable(target) for target in labels["targets"]),
            {_hashable(row): reason for row, reason in labels["failures"]},
            labels["provenance"],
            Cost(**labels["cost"]),
        )


def group_positions(features: Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Positions of the members of each group among `features`, in their order.

    Raises:
        InputError: an unknown or repeated member, an empty group, a group called like another feature.
    """
    positions: dict[str, list[int]] = {}
    owner: dict[str, str] = {}
    if not isinstance(groups, Mapping):
        raise InputError(
            f"groups is {type(groups).__name__}; give lists of features by name: {{'age': ['age_1', 'age_2']}}"
        )
    for group, given in groups.items():
        members = [] if isinstance(given, str) or not isinstance(given, Iterable) else list(map(str, given))
        if not members:
            raise InputError(f"group {group!r} must be a list of at least one feature, not {given!r}")
        for member in members:
            if member not in features:
                near = difflib.get_close_matches(member, features, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(f"group {group!r} names {member!r}, which is not a feature{hint}")
            if member in owner:
                raise InputError(f"feature {member!r} stands in group {owner[member]!r} and again in {group!r}")
            owner[member] = group
        positions[str(group)] = sorted(list(features).index(str(member)) for member in members)
    for group in positions:
        if group in features and owner.get(group) != group:
            raise InputError(f"group {group!r} has the name of a feature that is not in it; choose another name")
    return positions


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _hashable(value: Any) -> Hashable:
    return tuple(_hashable(part) for part in value) if isinstance(value, list) else value
