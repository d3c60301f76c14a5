"""`Fass`: every attempted pair with what became of it, and what they say together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError
from stabgate.measure.fass.aggregates import Summary, summarise
from stabgate.measure.fass.examples import Example
from stabgate.measure.fass.milder import Milder, Try
from stabgate.measure.fass.pairs import ERROR, MOST_DRAWS, NO_SIGNAL, Pair
from stabgate.measure.fass.references import Reference
from stabgate.perturbations import FAMILIES, Perturbation
from stabgate.similarity import score_above_floor

if TYPE_CHECKING:
    import pandas as pd

COMPONENTS = ("ssim", "spearman", "jaccard")
NOISE_MARGIN = 0.02  # a re-seed reference no further above the floor is noise: 20 pairs know a floor to about 0.01


@dataclass(frozen=True)
class FassCost:
    """What a measurement cost. Passes are counted in images and do not depend on the machine; seconds do.

    Not among the passes: those spent once per network on finding out how to work (which batch is quickest on a CPU,
    which layer Grad-CAM looks at, whether guided backpropagation reaches every activation), and those of `Fass.milder`,
    which a gate that was not measured asks for.

    Attributes:
        predictions: images predicted: originals and perturbed copies, once for all methods together.
        maps: maps computed for pairs: originals once per method, copies only where the prediction held.
        forward, backward: passes behind those maps; 0 where an explainer does not count.
        reference_maps, reference_forward, reference_backward: the same for floor and re-seed reference.
        attempted: pairs attempted, over all methods.
        seconds: wall clock of the whole measurement, all methods together.
    """

    predictions: int = 0
    maps: int = 0
    forward: int = 0
    backward: int = 0
    reference_maps: int = 0
    reference_forward: int = 0
    reference_backward: int = 0
    attempted: int = 0
    seconds: float = 0.0

    def __add__(self, other: FassCost) -> FassCost:
        return FassCost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(FassCost)))

    @property
    def saved(self) -> float:
        """Share of maps saved against attributing both members of every attempted pair, 0..1."""
        return 1.0 - self.maps / (2 * self.attempted) if self.attempted else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Fass:
    """What was measured, for one method or several.

    With several methods the single numbers (`score`, `floor`, ...) would say which method's? and raise; take one
    with ``result["its name"]``, or all with `by_method`.

    Attributes:
        pairs: every attempted pair under every method.
        methods: names of the methods.
        perturbations: as resolved for the protocol.
        images: ids of the images.
        references: floor and re-seed reference of each method.
        costs: maps and passes of each method.
        predictions: images predicted, for all methods together.
        seconds: wall clock of the measurement.
        provenance: model, methods with their settings and target layer, seed, protocol and options, as plain values.
        examples: the worst pairs of each perturbation with their images and maps, made small; the worst first.
    """

    pairs: tuple[Pair, ...]
    methods: tuple[str, ...]
    perturbations: tuple[Perturbation, ...]
    images: tuple[Hashable, ...]
    references: Mapping[str, tuple[Reference, Reference]]
    costs: Mapping[str, FassCost]
    predictions: int
    seconds: float
    provenance: dict[str, Any]
    examples: tuple[Example, ...] = ()
    _milder: Milder | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        parts = [
            f"{s.method}: {'not measured' if s.fass is None else f'{s.fass:.3f}'} over {s.retained} of {s.attempted} "
            f"pairs ({100 * s.retention:.0f} %)"
            for s in self.by_method()
        ]
        return f"Fass({'; '.join(parts)})"

    def __getitem__(self, method: str) -> Fass:
        """The result of one method."""
        if method not in self.methods:
            raise InputError(f"no method {method!r} was measured; there are {', '.join(map(repr, self.methods))}")
        return replace(
            self,
            pairs=tuple(pair for pair in self.pairs if pair.method == method),
            methods=(method,),
            references={method: self.references[method]},
            costs={method: self.costs.get(method, FassCost())},
            examples=tuple(example for example in self.examples if example.method == method),
        )

    def __getstate__(self) -> dict[str, Any]:
        # The model and the images stay where they are: a result that travels is numbers and words.
        return {**self.__dict__, "_milder": None}

    @property
    def method(self) -> str:
        """The method, where there is one.

        Raises:
            InputError: several were measured, and each has its own number.
        """
        if len(self.methods) > 1:
            raise InputError(
                f"{len(self.methods)} methods were measured ({', '.join(self.methods)}) and each has its own number: "
                f"say which, as in result[{self.methods[0]!r}]"
            )
        return self.methods[0]

    @property
    def summary(self) -> Summary:
        """All pairs of the one method."""
        return summarise(self.pairs, method=self.method, name="all")

    @property
    def score(self) -> float | None:
        """FASS: the mean over the retained pairs, or None where there are none."""
        return self.summary.fass

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the score, clustered by image: jackknife over images, Student's t; None below two images."""
        found = self.summary
        return None if found.low is None or found.high is None else (found.low, found.high)

    @property
    def components(self) -> dict[str, float | None]:
        """Means of ssim, spearman and jaccard over the retained pairs."""
        found = self.summary
        return {name: getattr(found, name) for name in COMPONENTS}

    @property
    def floor(self) -> float | None:
        """Mean score against the map of another image; None where there was no other."""
        return self.references[self.method][0].fass

    @property
    def reseed(self) -> float | None:
        """Mean score of the same image explained twice with different seeds; 1 for a deterministic method."""
        return self.references[self.method][1].fass

    @property
    def score_above_floor(self) -> float | None:
        """(FASS - floor) / (1 - floor): 0 at the floor, 1 for perfect; None where either is missing, or `alike`."""
        score, floor = self.score, self.floor
        return None if score is None or floor is None or self.alike else score_above_floor(score, floor)

    @property
    def alike(self) -> bool:
        """The floor is (almost) 1: these images, or these maps, are alike, and references can tell nothing apart."""
        return self.floor is not None and self.floor >= 1.0 - NOISE_MARGIN

    @property
    def only_noise(self) -> bool:
        """Explained twice with different seeds, an image is no closer to itself than to another."""
        floor, reseed = self.floor, self.reseed
        if floor is None or reseed is None or reseed >= 1.0 or self.alike:
            return False
        return reseed <= floor + NOISE_MARGIN

    @property
    def retention(self) -> float:
        """Retained pairs / attempted pairs, 0..1."""
        return self.summary.retention

    @property
    def cost(self) -> FassCost:
        """Of the methods in this result together; predictions and seconds are those of the whole measurement."""
        total = FassCost(predictions=self.predictions, attempted=len(self.pairs), seconds=self.seconds)
        for cost in self.costs.values():
            total += cost
        return total

    def by_perturbation(self) -> tuple[Summary, ...]:
        """One summary per method and perturbation."""
        return self._by("perturbation", [p.label for p in self.perturbations])

    def by_family(self) -> tuple[Summary, ...]:
        """One summary per method and family of perturbations: geometric, photometric, compression."""
        present = {p.family for p in self.perturbations}
        return self._by("family", [family for family in FAMILIES if family in present])

    def by_method(self) -> tuple[Summary, ...]:
        """One summary per method, over all its pairs."""
        return tuple(
            summarise((pair for pair in self.pairs if pair.method == method), method=method, name="all")
            for method in self.methods
        )

    def curve(self, kind: str | None = None) -> tuple[Summary, ...]:
        """Score per severity of one kind of perturbation, mildest first; one line per method and severity.

        Args:
            kind: "rotation", ...; may be left out where one kind was measured.

        Raises:
            InputError: a kind that was not measured, or none named where there are several.
        """
        kinds = list(dict.fromkeys(p.name for p in self.perturbations))
        if kind is None and len(kinds) > 1:
            raise InputError(f"several kinds were measured: say which, one of {', '.join(map(repr, kinds))}")
        chosen = kinds[0] if kind is None else kind
        if chosen not in kinds:
            raise InputError(f"kind={kind!r} was not measured; there are {', '.join(map(repr, kinds))}")
        mildest_first = sorted((p for p in self.perturbations if p.name == chosen), key=lambda p: p.strength)
        return self._by("perturbation", [p.label for p in mildest_first])

    def worst(self, n: int = 5) -> tuple[Pair, ...]:
        """The retained pairs with the lowest scores, lowest first."""
        scored = [pair for pair in self.pairs if pair.fass is not None]
        return tuple(sorted(scored, key=lambda pair: pair.fass if pair.fass is not None else 1.0)[:n])

    def fell(self, scored: Pair | Summary) -> tuple[str, float, float] | None:
        """The component that fell furthest on the way from its re-seed reference to its floor: name, value, reference.

        The reference is 1, and the floor 0, where there is none. Components without weight do not count. None where
        nothing fell.
        """
        floor, reseed = self.references[scored.method]
        falls = []
        for name, weight in zip(COMPONENTS, self.provenance["weights"], strict=True):
            if not weight:
                continue
            value, top, bottom = (getattr(item, name) for item in (scored, reseed, floor))
            top, bottom = 1.0 if top is None else top, 0.0 if bottom is None else bottom
            if value is not None and value < top:
                falls.append(((top - value) / max(top - bottom, NOISE_MARGIN), name, value, top))
        return max(falls)[1:] if falls else None

    def milder(self, label: str, *, min_retention: float, min_pairs: int) -> tuple[Perturbation, int, int] | None:
        """The harshest milder severity at which enough predictions hold: it, pairs kept, pairs attempted.

        Costs forward passes. None where no severity that is tried does, and after the result was pickled.
        """
        tries = self.tries(label, min_retention=min_retention, min_pairs=min_pairs) or ()
        enough = [t for t in tries if t.enough(min_retention=min_retention, min_pairs=min_pairs)]
        return (enough[0].perturbation, enough[0].kept, enough[0].attempted) if enough else None

    def tries(self, label: str, *, min_retention: float, min_pairs: int) -> tuple[Try, ...] | None:
        """Milder severities that were tried, harshest first; see `milder`. None after the result was pickled."""
        perturbation = next((p for p in self.perturbations if p.label == label), None)
        if perturbation is None or self._milder is None:
            return None
        known = [Try(p, *self.provenance["kept"][p.label]) for p in self.perturbations]
        return self._milder.tries(perturbation, known, min_retention=min_retention, min_pairs=min_pairs)

    def to_frame(self) -> pd.DataFrame:
        """One row per attempted pair and method, with the fields of `Pair` as columns."""
        import pandas as pd

        return pd.DataFrame([asdict(pair) for pair in self.pairs], columns=[f.name for f in fields(Pair)])

    def notes(self) -> tuple[str, ...]:
        """What a reader should know beside the numbers."""
        notes = []
        many = len(self.methods) > 1
        for method in self.methods:
            prefix = f"{method}: " if many else ""
            notes += [prefix + note for note in self[method]._notes()]
        for p in self.perturbations:
            if self.provenance["redraw"] is not None and p.random:
                held, draws = self.provenance["kept"][p.label]
                again = ""
                if any(pair.draw for pair in self.pairs if pair.perturbation == p.label):
                    again = f"; drawn again, at most {MOST_DRAWS} times an image, for the easier images first"
                notes.append(
                    f"{p.label}: {held} of {draws} draws kept the prediction ({100 * held / draws:.0f} %){again}"
                )
        return (*notes, *self.provenance.get("notes", ()))

    def _notes(self) -> list[str]:
        notes, all_pairs = [], self.summary
        floor, reseed = self.references[self.method]
        if all_pairs.fass is not None and floor.fass is not None:
            low = all_pairs.fass if all_pairs.low is None else all_pairs.low
            if self.alike:
                notes.append(
                    f"the floor is {floor.fass:.2f}: these images, or these maps, are alike, and a score cannot stand "
                    "above it"
                )
            elif low <= floor.fass:
                notes.append(
                    f"the score ({all_pairs.fass:.3f}) is at its floor ({floor.fass:.3f}): the explanation is no "
                    "closer to itself than to that of another image"
                )
        if self.only_noise:
            least = all_pairs.fass if all_pairs.low is None else all_pairs.low
            agree = least is not None and floor.fass is not None and least > floor.fass + NOISE_MARGIN
            notes.append(
                f"explained again with another seed, an image scores {reseed.fass:.3f} against itself and another "
                f"image {floor.fass:.3f}: the maps are sampling noise"
                + (", and only a shared seed makes pairs agree" if agree else "")
            )
        if floor.fass is None and floor.note:
            notes.append(f"no floor: {floor.note}")
        if reseed.fass is None and reseed.note:
            notes.append(f"no re-seed reference: {reseed.note}")
        elif reseed.note:
            notes.append(reseed.note)
        notes += [
            f"{part.name}: all {part.retained} pairs are of one image"
            for part in self.by_perturbation()
            if part.images == 1 and part.retained > 1
        ]
        for status, count in ((NO_SIGNAL, all_pairs.no_signal), (ERROR, all_pairs.errors)):
            if count:
                why = next(pair.reason for pair in self.pairs if pair.status == status)
                notes.append(f"{count} of {all_pairs.attempted} pairs: {status} ({why})")
        return notes

    def _by(self, attribute: str, names: list[str]) -> tuple[Summary, ...]:
        return tuple(
            summarise(
                (pair for pair in self.pairs if pair.method == method and getattr(pair, attribute) == name),
                method=method,
                name=name,
            )
            for method in self.methods
            for name in names
        )
