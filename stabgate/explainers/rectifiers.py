"""Whether guided backpropagation would be guided: Captum only changes gradients of `nn.ReLU` modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stabgate.errors import ExplainerError

if TYPE_CHECKING:
    import torch

    from stabgate.image_models import ImageModel

# What torch runs for rectifiers, as functions and as modules alike. ReLU6 is a hard tanh, which Captum leaves alone.
RECTIFIERS = frozenset({"relu", "relu_", "relu6", "relu6_", "hardtanh", "hardtanh_", "threshold", "threshold_"})


def check_guided(model: ImageModel, image: torch.Tensor) -> None:
    """Refuse a network in which rectifiers escape guided backpropagation (Springenberg et al. 2015).

    Runs the network once and compares the rectifiers that torch runs with the `nn.ReLU` modules that are called.

    Args:
        image: (1, channels, height, width), ready for the network.

    Raises:
        ExplainerError: there is no `nn.ReLU`, or some rectifier is not one: the result would be, wholly or in
            part, the plain gradient under another name. Or rectifiers work in place and copies change the outputs.
    """
    modules, operations = _counts(model, image)
    if operations > modules > 0:
        raise ExplainerError(
            f"guided backpropagation: of the {operations} rectifiers that {model.name} runs, "
            f"{operations - modules} are no nn.ReLU modules (torch.relu, ReLU6), so Captum would pass plain gradients "
            "through them; use nn.ReLU, or take method='saliency' or GradCam"
        )
    if not modules:
        what = "its rectifiers are functions or ReLU6" if operations else "it has none"
        raise ExplainerError(
            f"guided backpropagation changes the gradients of nn.ReLU modules, and {model.name} runs none ({what}): "
            "Captum would return the plain gradient; use nn.ReLU, or take method='saliency' or GradCam"
        )
    if _changed_by_copies(model, image):
        raise ExplainerError(
            f"guided backpropagation: an in-place nn.ReLU of {model.name} writes into its input, which is read again "
            "elsewhere; Captum gives each rectifier a copy, which makes it another network. Set inplace=False (and "
            "check the outputs), or take method='saliency' or GradCam"
        )


def _counts(model: ImageModel, image: torch.Tensor) -> tuple[int, int]:
    """Calls of `nn.ReLU` modules, and rectifiers that ran."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    modules = operations = 0

    class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it so
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal operations
            operations += getattr(function, "overloadpacket", function).__name__ in RECTIFIERS
            return function(*args, **(kwargs or {}))

    def count(*_: Any) -> None:
        nonlocal modules
        modules += 1

    with model.uncounted(), model.working(gradient=False) as network:
        handles = [m.register_forward_hook(count) for m in network.modules() if isinstance(m, torch.nn.ReLU)]
        try:
            with Counter():  # type: ignore[no-untyped-call]
                network(image)
        finally:
            for handle in handles:
                handle.remove()
    return modules, operations


def _changed_by_copies(model: ImageModel, image: torch.Tensor) -> bool:
    """Whether the outputs change when in-place rectifiers work on copies of their inputs."""
    import torch

    with model.uncounted(), model.working(gradient=False) as network:
        writing = [m for m in network.modules() if isinstance(m, torch.nn.ReLU) and m.inplace]
        if not writing:
            return False
        expected = network(image)
        handles = [m.register_forward_pre_hook(lambda _, given: tuple(x.clone() for x in given)) for m in writing]
        try:
            found = network(image)
        finally:
            for handle in handles:
                handle.remove()
    return not torch.allclose(found, expected, rtol=1e-4, atol=1e-6)
