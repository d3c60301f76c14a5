"""A network for images behind one face: images in [0, 1] in, outputs out, in batches that fit, and counted."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from stabgate.batches import Batches, quickest
from stabgate.devices import home_of, resolve_device
from stabgate.errors import InputError, ModelError
from stabgate.models import VARIATION
from stabgate.networks import evaluating, network_model
from stabgate.similarity.backend import require_torch

if TYPE_CHECKING:
    import torch

    from stabgate.image_network import ImageNetwork

Normalize: TypeAlias = "tuple[Sequence[float], Sequence[float]] | Callable[[torch.Tensor], torch.Tensor]"

# Numbers in one batch on an accelerator: 64 MB of images in single precision, 111 images of 3 x 224 x 224. More
# than memory holds is halved.
CELLS_PER_BATCH = 2**24
MEASURED_FROM = 16  # images; for fewer, measuring the quickest batch takes longer than it saves
UNMEASURED = 8  # images in a batch where nothing was measured
# Two explainers of one network work in the same batches, so that their maps are equal to the last bit.
_BATCHES: WeakKeyDictionary[Any, Batches] = WeakKeyDictionary()
CHECKED_TWICE = 4  # images that are predicted twice to see whether the network repeats itself


@dataclass(frozen=True)
class Passes:
    """Images that went through a network, and images that gradients came back for, from its outputs."""

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def __sub__(self, other: Passes) -> Passes:
        return Passes(self.forward - other.forward, self.backward - other.backward)


class ImageModel:
    """A torch module that classifies images, or a function of a tensor of images.

    The network works in evaluation mode and is left as it was: modes, buffers, gradients and their flags. Where
    it lives on another device than the one asked for, a copy of it works there. Images become its type.

    Args:
        model: a torch module or a function that takes (n, channels, height, width) and returns (n,) or (n,
            outputs), or the address of such a model in MLflow (`stabgate.as_model`); an ImageModel is returned as a
            face of the same network.
        device: "auto" (see `devices.resolve_device`), "cpu", "cuda:0", "mps".
        normalize: the model's own normalisation, applied inside: mean and standard deviation of each channel of
            images in [0, 1], or a function of a tensor of images.
        batch_size: images in one batch. None measures on a CPU which is quickest, and takes what memory holds
            elsewhere; results differ by rounding only, and a number makes even that repeatable.

    Raises:
        InputError: the model can be neither, the device is not there, or the normalisation is malformed.
    """

    def __init__(
        self,
        model: Any,
        *,
        device: Any = "auto",
        normalize: Normalize | None = None,
        batch_size: int | None = None,
    ) -> None:
        require_torch("explaining images")
        import torch

        self.source: Mapping[str, str] = {}
        if isinstance(model, (str, os.PathLike)):
            from stabgate.logged_models import logged_network

            model, self.source = logged_network(os.fspath(model))
        if isinstance(model, type) or not callable(model):
            what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise InputError(
                f"model is {what}; pass a torch module, or a function of images (n, channels, height, width)"
            )
        whole = isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool)
        if batch_size is not None and (not whole or batch_size < 1):
            raise InputError(f"batch_size={batch_size!r}: a positive integer, or None to find one")
        self.given = model
        self.is_module = isinstance(model, torch.nn.Module)
        self.notes: tuple[str, ...] = ()
        if self.is_module:
            self.name = type(model).__name__
            self.notes = network_model(model).notes
        else:
            self.name = getattr(model, "__name__", type(model).__name__).replace("<lambda>", "model")
        self.asked_device = device
        self.device: torch.device = resolve_device(device, model if self.is_module else None)
        self.normalize = _normalisation(normalize)
        self.fixed_batch = None if batch_size is None else int(batch_size)
        self.batches = _batches_of(model)
        self._network: ImageNetwork | None = None
        self._repeats = False

    def on(self, device: Any) -> ImageModel:
        """The same network on another device."""
        return ImageModel(self.given, device=device, normalize=self.normalize, batch_size=self.fixed_batch)

    @property
    def network(self) -> ImageNetwork:
        """The torch module that explainers call, on `device`."""
        if self._network is None:
            from stabgate.image_network import FunctionModule, ImageNetwork

            inner = self.given
            if not self.is_module:
                inner = FunctionModule(inner)
            import torch

            dtype, home = home_of(inner)
            if home != self.device and any(True for _ in (*inner.parameters(), *inner.buffers())):
                with torch.inference_mode(False):
                    inner = copy.deepcopy(inner).to(self.device)
            network = ImageNetwork(inner, self.name, self.normalize, dtype)
            network.training = inner.training
            self._network = network
        return self._network

    def hash(self) -> str | None:
        """16 characters that tell the module's weights from others; None for a function."""
        if not self.is_module:
            return None
        from stabgate.fingerprint import digest_of

        state = self.given.state_dict()
        return digest_of(self.name, *(part for name in sorted(state) for part in (name, _numbers(state[name]))))[:16]

    @property
    def dtype(self) -> torch.dtype:
        """The type that the network computes in."""
        return self.network.dtype

    @property
    def passes(self) -> Passes:
        """Images through the network so far, whatever for; neither measuring batches nor looking for layers
        counts."""
        network = self._network
        return Passes() if network is None else Passes(network.forward_rows, network.backward_rows)

    def record(self) -> dict[str, Any]:
        """What is recorded about the model: name, device, normalisation, type, notes."""
        return {
            "name": self.name,
            "device": str(self.device),
            "dtype": str(self.dtype).removeprefix("torch."),
            "normalize": _described(self.normalize),
            "notes": list(self.notes),
        }

    def as_input(self, images: torch.Tensor) -> torch.Tensor:
        """Images on the network's device, of its type, without gradient."""
        return fit_for_gradients(images.detach()).to(device=self.device, dtype=self.dtype)

    def predict(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs (n, outputs) of images (n, channels, height, width) in [0, 1], on the device, at least float32.

        Raises:
            ModelError: the network raises, or returns another shape, NaN or infinity.
            ExplainerError: memory runs out on one image alone.
        """
        import torch

        if not len(images):
            raise InputError("images is empty; give at least one")
        with self.working(gradient=False):
            outputs = self.forward(self.as_input(images))
        outputs = outputs if outputs.dtype == torch.float64 else outputs.float()
        bad = ~torch.isfinite(outputs)
        if bool(bad.any()):
            rows = int(bad.any(dim=1).sum())
            raise ModelError(f"{self.name} returned {float(outputs[bad][0])} for {rows} of {len(outputs)} images")
        return outputs

    def check_repeatable(self, images: torch.Tensor) -> None:
        """Ask about the first images twice, once in the life of this model.

        Raises:
            ModelError: identical calls differ, by more than 1e-9 of the largest output.
        """
        if self._repeats:
            return
        some = images[:CHECKED_TWICE]
        first, second = self.predict(some), self.predict(some)
        difference = float((first - second).abs().max())
        if difference > VARIATION * float(first.abs().max()):
            raise ModelError(
                f"{self.name} varies between identical calls, by {difference:.3g}, in evaluation mode: it draws "
                "random numbers when it predicts (a functional dropout?), so explanations of it cannot be stable"
            )
        self._repeats = True

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs of images that `as_input` made ready, in batches, without gradient; within `working`."""
        import torch

        def work(start: int, end: int) -> torch.Tensor:
            with torch.no_grad():
                return self.network(inputs[start:end])  # type: ignore[no-any-return]

        return torch.cat(self.in_batches(inputs, work, gradient=False))

    def in_batches(self, inputs: torch.Tensor, work: Callable[[int, int], Any], *, gradient: bool) -> list[Any]:
        """Results of `work(start, end)` over `inputs`; see `Batches.run`.

        Args:
            gradient: whether the work goes back through the network, which needs more memory.
        """
        kind, choose = self._plan(inputs, gradient, len(inputs))
        return self.batches.run(kind, len(inputs), work, choose, self.name)

    def batch_size(self, inputs: torch.Tensor, *, gradient: bool, rows: int) -> int:
        """Images like `inputs` in one batch, for work on `rows` of them."""
        kind, choose = self._plan(inputs, gradient, rows)
        return min(self.batches.size(kind, choose), rows)

    @contextmanager
    def working(self, *, gradient: bool) -> Iterator[ImageNetwork]:
        """The network, in evaluation mode, with gradients on or off whatever the caller's mode is."""
        import torch

        network = self.network
        with (
            warnings.catch_warnings(),
            evaluating(network),
            torch.inference_mode(False),
            torch.set_grad_enabled(gradient),
        ):
            warnings.filterwarnings("ignore", module=r"captum\.")
            yield network

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Passes within the block do not count: what is spent once on finding out how to work."""
        network = self.network
        before = network.forward_rows, network.backward_rows
        try:
            yield
        finally:
            network.forward_rows, network.backward_rows = before

    def _plan(self, inputs: torch.Tensor, gradient: bool, rows: int) -> tuple[Any, Callable[[], int]]:
        """What the batch size depends on, and how it is found."""
        kind = (str(self.device), gradient, tuple(inputs.shape[1:]))
        if self.fixed_batch is not None:
            return (*kind, self.fixed_batch), partial(int, self.fixed_batch)
        if self.device.type == "cpu" and rows < MEASURED_FROM:
            return (*kind, "not measured"), partial(int, UNMEASURED)
        return kind, partial(self._choose, inputs, gradient)

    def _choose(self, inputs: torch.Tensor, gradient: bool) -> int:
        import torch

        if self.device.type != "cpu":
            return max(1, CELLS_PER_BATCH // inputs[0].numel())

        def run(rows: int) -> None:
            batch = inputs[:1].expand(rows, *inputs.shape[1:]).detach().clone().requires_grad_(gradient)
            with torch.set_grad_enabled(gradient):
                outputs = self.network(batch)
                if gradient:
                    torch.autograd.grad(outputs[:, 0].sum(), batch, allow_unused=True)

        with self.uncounted():
            return quickest(run)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_network": None}


def fit_for_gradients(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of one that was made under inference mode and can take no part in gradients."""
    import torch

    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor


def as_image_model(model: Any, *, device: Any = "auto", normalize: Normalize | None = None) -> ImageModel:
    """An `ImageModel` as it is, or one made of a torch module or a function.

    Raises:
        InputError: as `ImageModel`; also a device or normalisation beside an ImageModel, which has its own.
    """
    if not isinstance(model, ImageModel):
        return ImageModel(model, device=device, normalize=normalize)
    if device != "auto" or normalize is not None:
        raise InputError("device= and normalize= belong to the ImageModel that was given; set them there")
    return model


def image_targets(target: Any, outputs: torch.Tensor, name: str) -> torch.Tensor:
    """The output that is explained in each image, long (n,).

    None means: the only output, or the predicted class (the largest output) of each image.

    Args:
        target: the number of an output, one for each image, or None.
        outputs: (n, outputs).

    Raises:
        InputError: not numbers of outputs, or another number of them than images.
    """
    import torch

    rows, count = outputs.shape
    if target is None:
        return outputs.argmax(dim=1)
    values = np.asarray(target.detach().cpu() if isinstance(target, torch.Tensor) else target)
    if values.dtype.kind not in "iu":
        raise InputError(f"target={target!r}: give the number of an output of {name}, 0 to {count - 1}")
    if values.ndim == 0:
        values = np.full(rows, int(values))
    if values.shape != (rows,):
        raise InputError(f"target has shape {values.shape} for {rows} images; give one number, or one per image")
    wrong = (values < 0) | (values >= count)
    if wrong.any():
        raise InputError(f"target={int(values[wrong][0])} is not an output of {name}; it has {count}, numbered from 0")
    return torch.as_tensor(values.astype(np.int64), device=outputs.device)


def _batches_of(model: Any) -> Batches:
    try:
        return _BATCHES.setdefault(model, Batches())
    except TypeError:  # an object that cannot be referred to weakly
        return Batches()


def _normalisation(normalize: Any) -> Callable[[torch.Tensor], Any] | None:
    if normalize is None or callable(normalize):
        return normalize  # type: ignore[no-any-return]
    from stabgate.image_network import MeanAndStd

    try:
        mean, std = (tuple(float(v) for v in np.atleast_1d(part)) for part in normalize)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"normalize={normalize!r}: give (mean, std), each a sequence of numbers per channel, or a function"
        ) from error
    if not all(np.isfinite(mean)) or not all(np.isfinite(std)) or not all(v > 0 for v in std):
        raise InputError(f"normalize={normalize!r}: numbers must be finite and standard deviations above 0")
    return MeanAndStd(mean, std)


def _described(normalize: Any) -> Any:
    if normalize is None:
        return None
    if hasattr(normalize, "mean") and hasattr(normalize, "std"):
        return {"mean": np.atleast_1d(normalize.mean).tolist(), "std": np.atleast_1d(normalize.std).tolist()}
    return getattr(normalize, "__name__", type(normalize).__name__)


def _numbers(value: Any) -> Any:
    """A tensor's content; anything else in a state is named by its type."""
    if not hasattr(value, "detach"):
        return type(value).__name__
    plain = value.detach().cpu()
    return plain.float().numpy() if plain.dtype.itemsize < 4 and plain.is_floating_point() else plain.numpy()
