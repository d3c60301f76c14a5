"""Perturbations by name: the sets of [F], single kinds, and sweeps over severities."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from stabgate.errors import InputError
from stabgate.perturbations.base import FAMILIES, Perturbation
from stabgate.perturbations.codec import Jpeg
from stabgate.perturbations.images import Brightness, GaussianNoise, Rotation, Translation

KINDS: Mapping[str, type[Rotation | Translation | Brightness | GaussianNoise | Jpeg]] = MappingProxyType(
    {kind.name: kind for kind in (Rotation, Translation, Brightness, GaussianNoise, Jpeg)}
)

# [F], section 3: the perturbations of its tables; and a set that most predictions survive.
PUBLISHED: tuple[Perturbation, ...] = (
    Rotation(15),
    Translation(20),
    Brightness(1.5),
    GaussianNoise(0.15),
    Jpeg(40),
)
MILD: tuple[Perturbation, ...] = (
    Rotation(5),
    Translation(10),
    Brightness(1.1),
    GaussianNoise(0.01),
    Jpeg(85),
)
SETS: Mapping[str, tuple[Perturbation, ...]] = MappingProxyType({"published": PUBLISHED, "mild": MILD})


def resolve(
    perturbations: str | Perturbation | Iterable[str | Perturbation], *, protocol: str = "aligned"
) -> tuple[Perturbation, ...]:
    """Perturbations from what a user wrote.

    Args:
        perturbations: "published" or "mild"; the name of one kind, at its published severity ("rotation"); a
            perturbation; or several of these.
        protocol: of the comparison to come. Rotations whose interpolation is left open become bilinear for
            "aligned" and nearest for "published", so that the record says which it was.

    Raises:
        InputError: an unknown name (with the nearest known one), nothing at all, something that is not a
            perturbation, or the same perturbation twice.
    """
    if protocol not in ("aligned", "published"):
        raise InputError(f'protocol={protocol!r}: choose "aligned" or "published"')
    items = [perturbations] if isinstance(perturbations, str | Perturbation) else perturbations
    if not isinstance(items, Iterable):
        raise InputError(f"perturbations={perturbations!r}: {_choices()}")
    found: list[Perturbation] = []
    for item in items:
        found.extend(_by_name(item) if isinstance(item, str) else [_checked(item)])
    if not found:
        raise InputError(f"perturbations is empty: {_choices()}")
    result = tuple(item.for_protocol(protocol) for item in found)
    labels = [item.label for item in result]
    for i, item in enumerate(result):
        if item in result[:i] or labels[i] in labels[:i]:
            raise InputError(f"perturbations names {labels[i]!r} twice: its pairs would count twice")
    return result


def sweep(kind: str | type[Perturbation], severities: Iterable[float]) -> tuple[Perturbation, ...]:
    """One kind at several severities, in the order given, for a stability curve.

    Args:
        kind: "rotation", "translation", "brightness", "noise", "jpeg", or a class that takes a severity.
        severities: in the unit of the kind.

    Raises:
        InputError: an unknown kind, no severities, one twice, or one that the kind does not allow.
    """
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InputError(f"kind={kind!r}: {_hint(kind, KINDS)}choose one of {', '.join(KINDS)}")
        make: type[Perturbation] = KINDS[kind]
    elif isinstance(kind, type) and issubclass(kind, Perturbation):
        make = kind
    else:
        raise InputError(f"kind={kind!r}: give a name ({', '.join(KINDS)}) or a Perturbation class")
    if not isinstance(severities, Iterable) or isinstance(severities, str):
        raise InputError(f"severities={severities!r}: give several, as in sweep({make.name!r}, [{severities!r}])")
    values = list(severities)
    if not values:
        raise InputError("severities is empty: give at least one")
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise InputError(f"severities names {repeated} more than once")
    return tuple(make(severity=value) for value in values)  # type: ignore[call-arg]  # a field of every kind


def _by_name(name: str) -> tuple[Perturbation, ...]:
    if name in SETS:
        return SETS[name]
    for perturbation in PUBLISHED:
        if perturbation.name == name:
            return (perturbation,)
    raise InputError(f"perturbations: {name!r} is unknown; {_hint(name, [*SETS, *KINDS])}{_choices()}")


def _checked(item: object) -> Perturbation:
    if not isinstance(item, Perturbation):
        what = "a class: create one with a severity" if isinstance(item, type) else "not a perturbation"
        raise InputError(f"perturbations: {item!r} is {what}; {_choices()}")
    for attribute in ("name", "family", "severity"):
        if not hasattr(item, attribute):
            raise InputError(f"{type(item).__name__} has no {attribute}: every perturbation states one")
    if item.family not in FAMILIES:
        raise InputError(f"{item.label}: family={item.family!r}; choose one of {', '.join(FAMILIES)}")
    return item


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}? " if near else ""


def _choices() -> str:
    return (
        f"give one of {', '.join(map(repr, SETS))}, a kind ({', '.join(map(repr, KINDS))}), "
        "a perturbation such as Rotation(15), or several of these"
    )
