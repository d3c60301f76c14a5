"""Captum's methods: their parameters, their generators, and one call on tensors of any shape.

Nothing here knows about tables, so that explainers of images can stand on it as well as `Captum` does.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stabgate.errors import ExplainerError, InputError
from stabgate.explainers.base import require
from stabgate.networks import evaluating

if TYPE_CHECKING:
    import torch

Baselines: TypeAlias = Literal["none", "one", "many"]
Tunnel: TypeAlias = Literal["smoothgrad", "smoothgrad_sq", "vargrad"]
TUNNELS: tuple[Tunnel, ...] = ("smoothgrad", "smoothgrad_sq", "vargrad")

# DeepLift's attributions add up to the difference between the outputs on input and baseline (Shrikumar et al.
# 2017, eq. 1). Single precision misses by 1e-6 of their absolute sum; a rectifier that Captum does not see,
# by percents.
COMPLETENESS = 1e-3


@dataclass(frozen=True)
class Method:
    """One of Captum's methods.

    Attributes:
        cls: its class in `captum.attr`.
        baselines: what stands for an absent feature: nothing, one row, or rows to draw from.
        gradient: it needs gradients of the module, and can go through a noise tunnel.
        random: it draws, from torch's generator or from NumPy's.
        construct: parameters of the constructor, with defaults.
        call: parameters of `attribute`, with defaults. Values of captum 0.9 unless said otherwise.
    """

    cls: str
    baselines: Baselines
    gradient: bool
    random: bool
    construct: Mapping[str, Any] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """All parameters with their defaults."""
        return {**self.construct, **self.call}


# Rows per call change no value beyond the last bits; Captum evaluates one at a time, which takes five times
# as long.
_SAMPLES_PER_CALL = {"perturbations_per_eval": 10}

METHODS: dict[str, Method] = {
    "integrated-gradients": Method(
        "IntegratedGradients", "one", True, False,
        {"multiply_by_inputs": True},
        {"n_steps": 50, "quadrature": "gausslegendre", "internal_batch_size": None},
    ),
    "gradient-shap": Method(
        "GradientShap", "many", True, True, {"multiply_by_inputs": True}, {"n_samples": 5, "stdevs": 0.0}
    ),
    # Captum takes absolute values by default; attributions have signs here, and `value` reduces them.
    "saliency": Method("Saliency", "none", True, False, {}, {"abs": False}),
    "input-x-gradient": Method("InputXGradient", "none", True, False),
    "deeplift": Method("DeepLift", "one", True, False, {"eps": 1e-10}, {}),
    "kernel-shap": Method("KernelShap", "one", False, True, {}, {"n_samples": 25, **_SAMPLES_PER_CALL}),
    "shapley-sampling": Method(
        "ShapleyValueSampling", "one", False, True, {}, {"n_samples": 25, **_SAMPLES_PER_CALL}
    ),
    # Captum's own surrogate is a lasso with alpha 0.01, which answers with zeros where outputs are
    # probabilities.
    "lime": Method(
        "Lime", "one", False, True,
        {"surrogate": "ridge", "alpha": 1.0, "distance": "cosine", "kernel_width": 1.0},
        {"n_samples": 50, **_SAMPLES_PER_CALL},
    ),
}  # fmt: skip
SURROGATES = {"ridge": "SkLearnRidge", "lasso": "SkLearnLasso", "linear": "SkLearnLinearRegression"}


def _meant(method: Any, methods: Iterable[str]) -> str:
    """What an unknown method may be another spelling of."""
    letters = "".join(c for c in str(method).lower() if c.isalnum())
    if letters in {kind.replace("_", "") for kind in TUNNELS}:
        kind = next(kind for kind in TUNNELS if kind.replace("_", "") == letters)
        return f'that is method="saliency" with noise_tunnel="{kind}"; '
    known = {name.replace("-", ""): name for name in methods} | {
        "".join(w[0] for w in n.split("-")): n for n in methods
    }
    near = difflib.get_close_matches(letters, [n for n in known if len(n) > 1], 1, 0.7)
    return f"did you mean {known[near[0]]!r}? " if near else ""


def checked_options(method: str, options: Mapping[str, Any], methods: Mapping[str, Method] = METHODS) -> dict[str, Any]:
    """All parameters of one of `methods`, defaults filled in.

    Raises:
        InputError: an unknown method, a parameter that it does not have, or an unknown surrogate or distance.
    """
    if method not in methods:
        hint = _meant(method, methods)
        raise InputError(f"method={method!r} is none of Captum's here; {hint}choose one of {', '.join(methods)}")
    known = methods[method].options
    for name in options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name}: not a parameter of {method}; {has}")
    chosen = known | dict(options)
    if chosen.get("surrogate", "ridge") not in SURROGATES:
        raise InputError(f"surrogate={chosen['surrogate']!r}: choose one of {', '.join(SURROGATES)}")
    if chosen.get("distance", "cosine") not in ("cosine", "euclidean"):
        raise InputError(f"distance={chosen['distance']!r}: choose 'cosine' or 'euclidean'")
    for name in ("n_steps", "n_samples", "perturbations_per_eval"):
        count = chosen.get(name, 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{name}={count!r}: a positive integer")
    return chosen


def build(known: Method, module: Any, options: Mapping[str, Any], **more: Any) -> Any:
    """Captum's attribution object for a method; `more` goes to its constructor as it is."""
    attr = require("captum.attr", "torch")
    construct = {name: options[name] for name in known.construct}
    if known.cls == "Lime":
        models = require("captum._utils.models.linear_model", "torch")
        alpha = {} if options["surrogate"] == "linear" else {"alpha": options["alpha"]}
        lime = require("captum.attr._core.lime", "torch")
        construct = {
            "interpretable_model": getattr(models, SURROGATES[options["surrogate"]])(**alpha),
            "similarity_func": lime.get_exp_kernel_similarity_function(
                distance_mode=options["distance"], kernel_width=options["kernel_width"]
            ),
        }
    return getattr(attr, known.cls)(module, **construct, **more)


def attribute(
    method: str,
    module: torch.nn.Module,
    inputs: torch.Tensor,
    baselines: torch.Tensor | None,
    target: int | None,
    options: Mapping[str, Any],
    tunnel: Mapping[str, Any] | None,
    seed: int,
) -> torch.Tensor:
    """Attributions of one output, of the shape of `inputs` ``(1, ...)``, detached.

    The module runs in evaluation mode and is left as it was. Torch's and NumPy's global generators must be
    seeded already; those of an accelerator are seeded here and given back.

    Args:
        method: a key of `METHODS`.
        module: the network itself, because DeepLift hooks its parts.
        inputs: one row or image, ``(1, ...)``.
        baselines: ``(1, ...)``, or ``(rows, ...)`` where the method draws from them.
        target: number of the output; None where the module returns ``(rows,)``.
        options: as `checked_options` returns them.
        tunnel: `nt_type`, `nt_samples`, `nt_samples_batch_size` and `stdevs` of Captum's NoiseTunnel, or
            None.
        seed: for the generator of an accelerator.

    Raises:
        ExplainerError: DeepLift would not be DeepLift on this module.
    """
    import torch

    known = METHODS[method]
    ask: dict[str, Any] = {"target": target}
    ask |= {"method" if name == "quadrature" else name: options[name] for name in known.call}
    explainer = build(known, module, options)
    with (
        warnings.catch_warnings(),
        evaluating(module),
        torch.inference_mode(False),
        torch.set_grad_enabled(known.gradient),
        accelerator_seeded(inputs.device, seed),
    ):
        warnings.filterwarnings("ignore", module=r"captum\.")
        # Copies: tensors made under the caller's inference mode cannot take part in gradients.
        inputs = inputs.detach().clone().requires_grad_(known.gradient)
        if baselines is not None:
            ask["baselines"] = baselines.detach().clone()
        if method == "deeplift":
            values = _deeplift(explainer, inputs, ask)
            if tunnel is None:
                return values
        if tunnel is not None:
            explainer = require("captum.attr", "torch").NoiseTunnel(explainer)
            ask |= tunnel
        result: torch.Tensor = explainer.attribute(inputs, **ask)
        return result.detach()


def _deeplift(explainer: Any, inputs: torch.Tensor, ask: Mapping[str, Any]) -> torch.Tensor:
    """DeepLift's attributions, if they are DeepLift's.

    Captum replaces the gradients of activation modules; an activation that is a function, or a module that is
    used twice, escapes it.
    """
    try:
        values, missing = explainer.attribute(inputs, return_convergence_delta=True, **ask)
    except RuntimeError as error:
        if "being used more than once" not in str(error):
            raise
        module = str(error).partition("Module ")[2].partition(" was detected")[0]
        raise ExplainerError(
            f"DeepLift: the module {module} is used more than once in the network, so Captum cannot tell its "
            "uses apart; give each use a module of its own, or take method='integrated-gradients'"
        ) from error
    missed, size = float(missing.abs().max()), float(values.detach().abs().sum())
    if missed > COMPLETENESS * max(size, missed):
        raise ExplainerError(
            "DeepLift: the attributions miss the difference between the outputs on input and baseline by "
            f"{missed:.3g} (their absolute sum is {size:.3g}). Captum only sees activations that are modules "
            "of their own (nn.ReLU, not torch.relu) and that it has a rule for; otherwise what it returns is "
            "input x gradient. Use modules, or method='integrated-gradients'"
        )
    return values.detach()  # type: ignore[no-any-return]  # captum is untyped


@contextmanager
def accelerator_seeded(device: torch.device, seed: int) -> Iterator[None]:
    import torch

    if device.type != "cuda":
        yield
        return
    with torch.random.fork_rng(devices=[device]):
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
        yield
