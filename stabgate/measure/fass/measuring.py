"""`measure_fass`: predictions once, originals' maps once per method, perturbed maps only where the prediction held."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.columns import Floats
from stabgate.errors import InputError, ModelError
from stabgate.fingerprint import digest_of
from stabgate.measure.fass.invariance import Invariance
from stabgate.measure.fass.methods import as_methods, shared_model
from stabgate.measure.fass.milder import Milder
from stabgate.measure.fass.pairs import RETAINED, Attempt, Draws, Originals, attempt, chunks, predictions
from stabgate.measure.fass.result import Fass
from stabgate.measure.fass.work import Comparing, Work
from stabgate.perturbations import resolve, validate_images
from stabgate.progress import Progress
from stabgate.runs import versions
from stabgate.seeds import row_seed
from stabgate.similarity import DEFAULT_REDUCTION, DEFAULT_TOP, DEFAULT_WEIGHTS, Reduction

if TYPE_CHECKING:
    import torch

    from stabgate.image_models import ImageModel

REFERENCE_IMAGES = 10  # images behind floor and re-seed reference, at most


def measure_fass(
    explainer: Any,
    images: Any,
    *,
    target: Any = None,
    perturbations: Any = "published",
    protocol: str = "aligned",
    seed: int = 0,
    device: Any = "auto",
    invariance: Any = "label",
    weights: Mapping[str, float] | Sequence[float] = DEFAULT_WEIGHTS,
    reduction: Reduction = DEFAULT_REDUCTION,
    top: float = DEFAULT_TOP,
    redraw: int | None = None,
    references: int = REFERENCE_IMAGES,
    ids: Sequence[Hashable] | None = None,
    model: Any = None,
) -> Fass:
    """Perturb images, keep the pairs whose prediction holds, and compare the attribution maps of each [F].

    Args:
        explainer: an explainer of images, or {name: explainer} for several of one model; any object with
            ``explain(X, *, seed, target=None) -> (instances, channels, height, width)`` will do, beside `model`.
        images: ``(n, channels, height, width)`` in [0, 1], before the model's normalisation; tensor or array.
        target: number of the output to explain, or one per image; None explains the predicted one of each original.
        perturbations: "published", "mild", a kind such as "rotation", perturbations, or several of these.
        protocol: "aligned" or "published" (definitions of both: `stabgate.similarity`). Aligned pairs share their
            seed and their segments, so that no sampling noise is taken for a reaction; published ones do not.
        seed: of the whole measurement. Each image's seeds follow from it and the image's id.
        device: where images are perturbed and maps compared; "auto" is where the model is.
        invariance: when a prediction counts as kept: "label" (equal arg-max), ("probability", tolerance),
            ("output", tolerance), ("relative output", tolerance) for a regression, ("side", threshold) for one output.
        weights, reduction, top: as in `compare_maps`.
        redraw: draw random perturbations again until this many pairs of each are retained (at most 20 draws an
            image); every draw counts as attempted, and the acceptance rate is in the notes.
        references: at most this many images for floor and re-seed reference; 0 leaves both out.
        ids: names of the images; 0..n-1 by default.
        model: the network whose prediction must hold, where the explainer has none.

    Returns:
        Every attempted pair, with its components or the reason why there are none.

    Raises:
        InputError: images, an option or a combination that cannot be used.
        ModelError: the model fails on every image, or varies between identical calls.
    """
    started = time.perf_counter()
    tensor = validate_images(images)
    import torch

    rule = Invariance.of(invariance)
    chosen = resolve(perturbations, protocol=protocol)
    _check_counts(redraw=redraw, references=references, seed=seed)
    names = _check_ids(ids, len(tensor))
    comparing = Comparing(protocol, weights, reduction, top)
    comparing.check(tuple(tensor.shape[1:]), chosen)
    methods = as_methods(explainer, as_array=not isinstance(images, torch.Tensor), device=device)
    network = shared_model(methods, model, device)
    where, before = network.device, network.passes

    originals = _originals(network, tensor.detach(), names, rule, target)
    draws = Draws(seed, names, protocol)
    attempts = attempt(network.predict, originals, chosen, rule, draws, device=where, redraw=redraw)
    predicted = network.passes - before
    kept = [a for a in attempts if a.status == RETAINED]
    sample = _sample(kept, originals, references, seed)
    work = Work(methods, originals, chosen, draws, comparing, where, frozenset(sample))
    retained = sorted({a.image for a in kept})
    total = len(methods) * (len(retained) + len(kept))
    with Progress(total, lambda: sum(m.passes()[0] for m in methods)) as progress:
        for some in chunks(retained):
            work.explain(some, [a for a in kept if a.image in some], progress)
    found = {m.name: work.references(m, sample) for m in methods}
    return Fass(
        pairs=tuple(work.pair(m, a) for m in methods for a in attempts),
        methods=tuple(m.name for m in methods),
        perturbations=chosen,
        images=names,
        references=found,
        costs=work.costs,
        predictions=predicted.forward,
        seconds=time.perf_counter() - started,
        provenance={
            "protocol": protocol,
            "seed": seed,
            "invariance": str(rule),
            "perturbations": [p.label for p in chosen],
            "weights": list(comparing.shares()),
            "reduction": reduction,
            "top": top,
            "redraw": redraw,
            "kept": {p.label: _kept(attempts, i) for i, p in enumerate(chosen)},
            "options": _not_default(
                target=target,
                invariance=invariance,
                weights=weights,
                reduction=reduction,
                top=top,
                redraw=redraw,
                references=references,
                ids=ids,
            ),
            "images": len(tensor),
            "shape": list(tensor.shape[1:]),
            "model": network.name,
            "source": dict(network.source),
            "methods": {m.name: m.describe() for m in methods},
            "device": str(where),
            "notes": list(network.notes),
            "package": {"torch": str(torch.__version__)},
            "hashes": {"images": [digest_of(image.cpu().numpy())[:16] for image in tensor], "model": network.hash()},
            "versions": {**versions(), "torch": str(torch.__version__)},
        },
        examples=tuple(example for m in methods for example in work.examples.of(m.name)),
        _milder=Milder(network.predict, originals, rule, draws, where),
    )


def _originals(
    network: ImageModel, images: torch.Tensor, ids: tuple[Hashable, ...], rule: Invariance, target: Any
) -> Originals:
    """What the model says of the images, and which output of each is explained.

    Raises:
        ModelError: it fails on every image, or gives another answer when asked again.
        InputError: a rule or a target that the outputs do not allow.
    """
    found, failures = predictions(network.predict, lambda some: images[some].to(network.device), range(len(images)))
    if not found:
        raise ModelError(f"the model failed on every image, on the first because: {failures[0]}")
    network.check_repeatable(images[list(found)])
    outputs = np.full((len(images), len(next(iter(found.values())))), np.nan)
    for i, values in found.items():
        outputs[i] = values
    rule.check(outputs.shape[1])
    return Originals(images, ids, outputs, _targets(target, outputs, rule), failures)


def _targets(target: Any, outputs: Floats, rule: Invariance) -> NDArray[np.intp]:
    n, count = outputs.shape
    if target is None:
        if count > 1 and "output" in rule.rule:
            raise InputError(f"the model has {count} outputs and invariance is about one: say target=0 to {count - 1}")
        return np.asarray(np.nan_to_num(outputs, nan=-np.inf).argmax(axis=1), dtype=np.intp)
    given = np.asarray(target.cpu() if hasattr(target, "cpu") else target)
    if given.dtype.kind not in "iu" or given.shape not in ((), (n,)):
        raise InputError(f"target={target!r}: give the number of an output, or one for each of the {n} images")
    if given.min() < 0 or given.max() >= count:
        raise InputError(f"target={target!r}: the model has {count} outputs, numbered from 0")
    return np.broadcast_to(given, (n,)).astype(np.intp)


def _kept(attempts: Sequence[Attempt], p: int) -> list[int]:
    """How many predictions held under a perturbation, whatever the explainers then did, and how many were asked."""
    found = [a.status == RETAINED for a in attempts if a.perturbation == p]
    return [sum(found), len(found)]


def _not_default(**given: Any) -> dict[str, Any]:
    """Options as plain values, those that were left alone dropped: what it takes to measure the same again."""
    defaults = measure_fass.__kwdefaults__ or {}
    return {n: plain for n, v in given.items() if (plain := _plain(v)) != _plain(defaults[n])}


def _plain(value: Any) -> Any:
    if isinstance(value, Invariance):
        return value.rule if value.rule == "label" else [value.rule, value.number]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, (list, tuple, range)) else value


def _sample(kept: Sequence[Attempt], originals: Originals, size: int, seed: int) -> list[int]:
    """Images for the references: such as have a retained pair, others only where the floor would lack a second one."""
    if size == 0 or not kept:
        return []
    usable = [i for i in range(len(originals.ids)) if i not in originals.failures]
    order = np.random.default_rng(row_seed(seed, 0, "references")).permutation(usable).tolist()
    retained = {a.image for a in kept}
    first = [i for i in order if i in retained]
    return (first + [i for i in order if i not in retained][: max(0, 2 - len(first))])[:size]


def _check_counts(*, redraw: Any, references: Any, seed: Any) -> None:
    for name, value, least in (("redraw", redraw, 1), ("references", references, 0), ("seed", seed, 0)):
        if name == "redraw" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise InputError(f"{name}={value!r}; it must be an integer of at least {least}")


def _check_ids(ids: Sequence[Hashable] | None, n: int) -> tuple[Hashable, ...]:
    if n == 0:
        raise InputError("images is empty: nothing to measure")
    if ids is None:
        return tuple(range(n))
    names = tuple(ids)
    if len(names) != n:
        raise InputError(f"ids has {len(names)} names for {n} images")
    strange = next((name for name in names if not isinstance(name, Hashable)), None)
    if strange is not None:
        raise InputError(f"ids names {strange!r}, a {type(strange).__name__}: give texts or numbers")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"ids names {twice!r} twice: the pairs of an image must be known as its own")
    return names
