"""Captum's attribution methods on the rows of a table; images are handed over to `ImageCaptum`.

Source: N. Kokhlikyan et al., "Captum: A unified and generic model interpretability library for PyTorch"
(arXiv 2009.07896); computed by the captum package.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from stabgate.columns import Floats
from stabgate.cost import Cost
from stabgate.errors import InputError
from stabgate.explainers.base import Rows, require
from stabgate.explainers.both import TableOrImageExplainer
from stabgate.explainers.captum_methods import METHODS, TUNNELS, Tunnel, attribute, checked_options
from stabgate.networks import as_tensor, evaluating

if TYPE_CHECKING:
    import torch

    from stabgate.explainers.image_captum import ImageCaptum

MethodName: TypeAlias = Literal[
    "integrated-gradients",
    "gradient-shap",
    "saliency",
    "input-x-gradient",
    "deeplift",
    "kernel-shap",
    "shapley-sampling",
    "lime",
    "occlusion",
    "guided-grad-cam",
]
Baseline: TypeAlias = Literal["mean", "median", "zeros"] | float | Sequence[float]


class Captum(TableOrImageExplainer):
    """Attributions of a torch module by one of Captum's methods, row by row or image by image.

    What follows holds for tables; `ImageCaptum` says what is different for images, of which it has "occlusion" and
    "guided-grad-cam" for its own, and no "deeplift", "kernel-shap" and "shapley-sampling". Whether parameters that
    fit only one of the two were meant for it is seen when the other one is asked for.

    Values equal a direct call of Captum on that row alone, with torch's and NumPy's global generators seeded
    (torch's serves Lime, KernelShap, ShapleyValueSampling and NoiseTunnel, NumPy's GradientShap), the same
    baseline and the same parameters. They are in units of the output for all methods but saliency, which is
    output per unit of the feature, and the squared tunnels.

    The module runs in evaluation mode whatever mode it is in, and is left as it was. DeepLift is refused, row
    by row, where its attributions do not add up (see `captum_methods.attribute`).

    Args:
        model: a torch module that takes ``(rows, features)`` and returns ``(rows,)`` or ``(rows, outputs)``.
        method: see `captum_methods.METHODS`.
        background: rows with the columns of X, numbers and booleans. "gradient-shap" draws its baselines from
            them.
        baseline: what stands for an absent feature in the other methods: "mean" or "median" of the
            background, "zeros", or one number per feature. None is "mean" where there is a background,
            "zeros" where not.
        noise_tunnel: "smoothgrad", "smoothgrad_sq" or "vargrad" average a gradient method over noisy copies.
        nt_samples: noisy copies.
        nt_stdevs: standard deviation of the noise, in the units of the features and the same for all of them,
            so meant for scaled features. Captum's default of 1 is no choice; give one.
        device, normalize: for images, as for `ImageModel`.
        options: parameters of the method, see `METHODS`: `n_steps`, `n_samples`, `surrogate`, `alpha`, ...

    Raises:
        InputError: the model is no torch module, or a parameter is unknown or missing, for tables and for images.
    """

    package = "captum"

    def __init__(
        self,
        model: Any,
        *,
        method: MethodName = "integrated-gradients",
        background: Any = None,
        baseline: Baseline | None = None,
        noise_tunnel: Tunnel | None = None,
        nt_samples: int = 5,
        nt_stdevs: float | None = None,
        device: Any = "auto",
        normalize: Any = None,
        **options: Any,
    ) -> None:
        from stabgate.explainers.image_captum import ImageCaptum

        common = {
            "method": method,
            "background": background,
            "baseline": baseline,
            "noise_tunnel": noise_tunnel,
            "nt_samples": nt_samples,
            "nt_stdevs": nt_stdevs,
            **options,
        }
        self._build_images = partial(ImageCaptum, model, device=device, normalize=normalize, **common)
        self._images: ImageCaptum | None = None
        self._no_tables: str | None = None
        try:
            if device != "auto" or normalize is not None:
                raise InputError("device= and normalize= are for images; a table is explained where the network is")
            self._set_up_tables(model, **common)
        except InputError as error:
            try:
                self.name = self.for_images().name
            except InputError as other:
                images = device != "auto" or normalize is not None or _only_images(method, background, options)
                raise (other if images else error) from None
            self._no_tables = str(error)

    def _set_up_tables(
        self,
        model: Any,
        *,
        method: MethodName,
        background: Any,
        baseline: Baseline | None,
        noise_tunnel: Tunnel | None,
        nt_samples: int,
        nt_stdevs: float | None,
        **options: Any,
    ) -> None:
        """What the constructor does for tables.

        Raises:
            InputError: the parameters do not fit tables.
        """
        self.options = checked_options(method, options)
        super().__init__(model, background=background)
        self.method = method
        self.known = METHODS[method]
        self.module = _module_of(self.model)
        self.name = f"captum.{method}" + (f"+{noise_tunnel}" if noise_tunnel else "")
        self.draws_globally = self.known.random or noise_tunnel is not None
        self.tunnel = _tunnel(method, noise_tunnel, nt_samples, nt_stdevs)
        self.baseline = _baseline(method, baseline, background)
        self._flat = False  # the module returns (rows,), so that Captum takes no number of an output

    def for_images(self) -> ImageCaptum:
        """The explainer of images with the same settings.

        Raises:
            InputError: they do not fit images.
        """
        if self._images is None:
            self._images = self._build_images()
        return self._images

    def describe(self) -> dict[str, Any]:
        """What is recorded; of an explainer that fits only images, what `ImageCaptum` says."""
        return super().describe() if self._no_tables is None else self.for_images().describe()

    def settings(self) -> dict[str, Any]:
        if self._no_tables is not None:
            return self.for_images().settings()
        settings: dict[str, Any] = {"method": self.method, **self.options}
        if self.known.baselines == "one":
            settings["baseline"] = (
                self.baseline if isinstance(self.baseline, str) else [float(v) for v in self.baseline]
            )
        return settings | {"noise_tunnel": self.tunnel}

    def prepare(self, X: Any, *, target: Any = None, ids: tuple[Hashable, ...] | None = None) -> Rows:
        """As in `TableExplainer.prepare`.

        Raises:
            InputError: also, a column that is not made of numbers or booleans, or a baseline of another
                length.
        """
        import torch

        if self._no_tables is not None:
            raise InputError(f"{self.name} explains images only as it is set up: {self._no_tables}")
        rows = super().prepare(X, target=target, ids=ids)
        for column in rows.table.columns:
            if column.kind not in ("number", "boolean"):
                raise InputError(
                    f"{self.name}: column {column.name!r} holds {column.kind} values, and a network takes "
                    "numbers; encode it before"
                )
        if not isinstance(self.baseline, str):
            given, features = len(self.baseline), len(rows.features)
            if given != features:
                raise InputError(f"baseline has {given} numbers for {features} features")
        if self.method == "kernel-shap" and len(rows.features) < 2:
            raise InputError("kernel-shap needs at least two features: with one there is nothing to share")
        with evaluating(self.module), torch.no_grad():
            self._flat = self.module(as_tensor(self.module, rows.encoded[:1])).ndim == 1
        return rows

    def explain_encoded(self, rows: Rows, i: int, seed: int) -> Floats:
        inputs = as_tensor(self.module, rows.encoded[i : i + 1])
        with self._counted():
            values = attribute(
                self.method,
                self.module,
                inputs,
                self._baselines(rows),
                None if self._flat else int(rows.targets[i]),
                self.options,
                self.tunnel,
                seed,
            )
        return np.asarray(values[0].double().cpu().numpy())

    def cheaper(self) -> tuple[str, ...]:
        if self._no_tables is not None:
            return ()
        counts: dict[str, Any] = {n: self.options[n] for n in ("n_steps", "n_samples") if n in self.options}
        if self.tunnel is not None:
            counts["nt_samples"] = self.tunnel["nt_samples"]
        return tuple(f"a smaller {name} ({value} now; it changes values)" for name, value in counts.items())

    def _baselines(self, rows: Rows) -> torch.Tensor | None:
        if self.known.baselines == "none":
            return None
        if self.known.baselines == "many":
            return as_tensor(self.module, self.encoded_background(rows.table))
        if self.baseline == "zeros":
            row = np.zeros(len(rows.features))
        elif isinstance(self.baseline, str):
            reduce = np.mean if self.baseline == "mean" else np.median
            row = reduce(self.encoded_background(rows.table), axis=0)
        else:
            row = np.asarray(self.baseline, dtype=np.float64)
        return as_tensor(self.module, row[None, :])

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """What the module is asked within the block goes to the cost: rows, calls and time."""
        import torch

        rows = calls = 0

        def count(_: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
            nonlocal rows, calls
            calls += 1
            for argument in arguments:  # DeepLift passes inputs and baselines, to be evaluated together
                tensors = argument if isinstance(argument, tuple) else (argument,)
                rows += sum(len(t) for t in tensors if isinstance(t, torch.Tensor))

        started = time.perf_counter()
        handle = self.module.register_forward_pre_hook(count)
        try:
            yield
        finally:
            handle.remove()
            self.predictor.cost += Cost(
                rows=rows, rows_asked=rows, calls=calls, model_seconds=time.perf_counter() - started
            )


def _only_images(method: str, background: Any, options: Mapping[str, Any]) -> bool:
    """Whether what was asked for exists for images only."""
    from stabgate.explainers.image_captum import IMAGE_METHODS

    if method not in METHODS or getattr(background, "ndim", 0) == 4:
        return True
    own = IMAGE_METHODS[method].options if method in IMAGE_METHODS else {}
    return any(name in own and name not in METHODS[method].options for name in options)


def _module_of(model: Any) -> Any:
    torch = require("torch", "torch")
    if not isinstance(model.inner, torch.nn.Module):
        raise InputError(f"Captum explains torch modules, and {model.name} is none; Shap, Lime and Dice take any model")
    return model.inner


def _tunnel(method: str, kind: Tunnel | None, samples: int, stdevs: float | None) -> dict[str, Any] | None:
    if kind is None:
        return None
    if kind not in TUNNELS:
        raise InputError(f"noise_tunnel={kind!r}: choose one of {', '.join(TUNNELS)}, or None")
    if not METHODS[method].gradient or METHODS[method].random:
        fit = ", ".join(name for name, known in METHODS.items() if known.gradient and not known.random)
        raise InputError(f"noise_tunnel goes around the methods {fit}, not {method}")
    if stdevs is None or not stdevs > 0:
        raise InputError(
            f"nt_stdevs={stdevs!r}: give the standard deviation of the noise, above 0, in the units of the features"
        )
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise InputError(f"nt_samples={samples!r}: a positive integer")
    return {"nt_type": kind, "nt_samples": samples, "stdevs": float(stdevs), "nt_samples_batch_size": None}


def _baseline(method: str, baseline: Baseline | None, background: Any) -> str | tuple[float, ...]:
    wanted = METHODS[method].baselines
    if wanted != "one":
        if baseline is not None:
            uses = "draws its baselines from background=" if wanted == "many" else "has no baseline"
            raise InputError(f"baseline={baseline!r}: {method} {uses}")
        if wanted == "many" and background is None:
            raise InputError(f"{method} needs background=: it draws its baselines from those rows")
        return "zeros"
    if baseline is None:
        return "zeros" if background is None else "mean"
    if isinstance(baseline, (int, float)):
        raise InputError(f"baseline={baseline!r}: a table takes 'mean', 'median', 'zeros' or one number per feature")
    if not isinstance(baseline, str):
        numbers = tuple(float(v) for v in baseline)
        if not np.isfinite(numbers).all():
            raise InputError("baseline holds a value that is not finite")
        return numbers
    if baseline not in ("mean", "median", "zeros"):
        raise InputError(f"baseline={baseline!r}: 'mean', 'median', 'zeros' or one number per feature")
    if baseline != "zeros" and background is None:
        raise InputError(f"baseline={baseline!r} needs background=: the rows to take it of")
    return baseline
