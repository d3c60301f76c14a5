"""Which layer Grad-CAM looks at: by name, by module, or the last stage of a convolutional or token network."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError

if TYPE_CHECKING:
    import torch

    from stabgate.image_models import ImageModel

# Tokens before the patches that are looked for: a class token, a distillation token, registers.
MOST_PREFIX_TOKENS = 16
# Layer normalisations and attentions after the last convolution that make it a token network: one block has three.
TOKEN_NORMS = 3


@dataclass(frozen=True)
class Layer:
    """A layer, and how its output becomes a plane.

    Attributes:
        name: in the user's network, as `named_modules` gives it.
        grid: height and width of the patches where the output is tokens (n, prefix + height·width, channels);
            None where it is (n, channels, height, width) already, or a `reshape` of the user does it.
        prefix: tokens before the patches (the class token), which are dropped.
    """

    name: str
    grid: tuple[int, int] | None = None
    prefix: int = 0

    def plane(self, output: torch.Tensor) -> torch.Tensor:
        """Tokens (n, tokens, channels) as (n, channels, height, width)."""
        if self.grid is None:
            return output
        height, width = self.grid
        patches = output[:, self.prefix :].transpose(1, 2)
        return patches.reshape(*patches.shape[:2], height, width)


@dataclass(frozen=True)
class _Seen:
    """What one module returned in one forward pass."""

    name: str
    module: Any
    output: Any
    order: int


def layer_name(model: ImageModel, layer: Any) -> str:
    """The name of a layer that was given by name or as a module of the network.

    Raises:
        InputError: the network has no such layer; near names are listed.
    """
    import torch

    names = dict(model.given.named_modules())
    if isinstance(layer, torch.nn.Module):
        for name, module in names.items():
            if module is layer and name:
                return str(name)
        raise InputError(f"layer: this {type(layer).__name__} is not a part of {model.name}; give one of its modules")
    if not isinstance(layer, str):
        raise InputError(f"layer={layer!r}: give the name of a layer, a module of the network, or None")
    if layer in names and layer:
        return layer
    near = difflib.get_close_matches(layer, [n for n in names if n], 3, 0.5)
    hint = "did you mean " + ", ".join(repr(n) for n in near) if near else "there are " + _listing(list(names))
    raise InputError(f"layer={layer!r} is not a layer of {model.name}; {hint}")


def given_layer(model: ImageModel, layer: Any, image: torch.Tensor, reshape: Callable[[Any], Any] | None) -> Layer:
    """The layer that the user asked for, made ready.

    Args:
        image: (1, channels, height, width), ready for the network.
        reshape: turns the layer's output into (n, channels, height, width).

    Raises:
        InputError: there is no such layer, it does not run exactly once, or its output is no plane of values.
    """
    name = layer_name(model, layer)
    with model.uncounted(), model.working(gradient=False) as network:
        seen = [s for s in _run(network, network.inner, image) if s.name == name]
    if len(seen) != 1:
        times = "not at all" if not seen else f"{len(seen)} times"
        raise InputError(f"layer {name!r} of {model.name} runs {times} in one pass; give one that runs once")
    output = _tensor(seen[0].output)
    shape = None if output is None else tuple(output.shape)
    if reshape is not None:
        plane = reshape(seen[0].output)
        if getattr(plane, "ndim", 0) != 4 or len(plane) != 1:
            found = tuple(plane.shape) if hasattr(plane, "shape") else type(plane).__name__
            raise InputError(f"reshape returned {found} for layer {name!r}; expected (n, channels, height, width)")
        return Layer(name)
    if shape is not None and len(shape) == 4:
        return Layer(name)
    if shape is not None and len(shape) == 3 and shape[0] == 1:
        grid = _grid(shape[1], image, _patches(model, image))
        if grid is not None:
            return Layer(name, grid[0], grid[1])
    raise InputError(
        f"layer {name!r} of {model.name} returns {shape or type(seen[0].output).__name__}, which has no height and "
        "width; give a convolutional layer, or reshape=, a function from its output to (n, channels, height, width)"
    )


def find_layer(model: ImageModel, image: torch.Tensor, target: int) -> Layer:
    """The last stage of a network of common kind.

    Convolutional: the last convolution whose output has a height and width, together with the blocks around it
    that keep both (ResNet's `layer4`, DenseNet's `features`), or else with the normalisation and activation that
    follow it. Tokens: the last block whose patch tokens get gradients from the target output; with a class-token
    head those of the last block are exactly zero.

    Args:
        image: (1, channels, height, width), ready for the network.
        target: the output whose gradients are looked at.

    Raises:
        InputError: there is neither; name a layer.
    """
    import torch

    with model.uncounted(), model.working(gradient=True) as network:
        seen = list(_run(network, network.inner, image.clone().requires_grad_(True), target))
    convolutions = [
        s for s in seen if isinstance(s.module, torch.nn.Conv2d) and _plane_of(s) is not None and _once(s, seen)
    ]
    patches = _plane_of(convolutions[-1]) if convolutions else None
    tokens = _token_layer(seen, image, patches)
    if tokens is not None:
        return tokens
    if not convolutions:
        raise InputError(
            f"{model.name} has no convolution with a height and width, nor blocks of patch tokens, so no layer "
            "for Grad-CAM could be found; name one with layer="
        )
    name = _stage(convolutions[-1], seen)
    # Patches of a token network come from a convolution too, and what follows it is no convolutional stage.
    norms = (torch.nn.LayerNorm, torch.nn.MultiheadAttention)
    later = [s for s in seen[convolutions[-1].order + 1 :] if not s.name.startswith(f"{name}.")]
    if sum(isinstance(s.module, norms) for s in later) >= TOKEN_NORMS:
        raise InputError(
            f"{model.name} works on tokens after its last convolution {name!r}, in a layout other than (n, tokens, "
            "channels) of the patches; name a block with layer= and say with reshape= how its output becomes (n, "
            "channels, height, width)"
        )
    return Layer(name)


@contextmanager
def captured(module: torch.nn.Module) -> Iterator[list[Any]]:
    """The outputs of a module within the block, each before anything can change it in place."""
    outputs: list[Any] = []

    def keep(_: Any, __: Any, output: Any) -> Any:
        outputs.append(output)
        return _copied(output)

    handle = module.register_forward_hook(keep)
    try:
        yield outputs
    finally:
        handle.remove()


def _run(network: Any, inner: Any, image: Any, target: int | None = None) -> list[_Seen]:
    """What each module returned, in the order they finished; with a target, outputs are replaced by gradients
    where they are tokens (n, tokens, channels)."""
    import torch

    seen: list[_Seen] = []
    handles = []
    for name, module in inner.named_modules():

        def keep(part: Any, _: Any, output: Any, name: str = name) -> Any:
            seen.append(_Seen(name, part, output, len(seen)))
            return _copied(output)

        handles.append(module.register_forward_hook(keep))
    try:
        outputs = network(image)
    finally:
        for handle in handles:
            handle.remove()
    if target is None:
        return seen
    wanted = [s for s in seen if (t := _tensor(s.output)) is not None and t.ndim == 3 and t.requires_grad]
    if not wanted:
        return seen
    gradients = torch.autograd.grad(outputs[0, target], [_tensor(s.output) for s in wanted], allow_unused=True)
    found = {s.order: g for s, g in zip(wanted, gradients, strict=True)}
    return [_Seen(s.name, s.module, found.get(s.order, s.output), s.order) for s in seen]


def _token_layer(seen: list[_Seen], image: Any, patches: tuple[int, int] | None) -> Layer | None:
    """The last block of a sequence of like blocks whose patch tokens have gradients."""
    import torch

    if patches is None:
        return None
    names = {s.name: s for s in seen}
    blocks = []
    for candidate in seen:
        parent, _, last = candidate.name.rpartition(".")
        if not last.isdigit() or not _once(candidate, seen):
            continue
        # Blocks stand in a list of their like.
        alike = [s for s in names.values() if s.name.rpartition(".")[0] == parent]
        if sum(type(s.module) is type(candidate.module) for s in alike) < 2:
            continue
        gradient = _tensor(candidate.output)
        if gradient is None or gradient.ndim != 3 or isinstance(candidate.module, torch.nn.Dropout):
            continue
        blocks.append((candidate, gradient))
    for candidate, gradient in reversed(blocks):
        grid = _grid(gradient.shape[1], image, patches)
        if grid is not None and bool(gradient[:, grid[1] :].ne(0).any()):
            return Layer(candidate.name, grid[0], grid[1])
    return None


def _stage(last: _Seen, seen: list[_Seen]) -> str:
    """The widest block around a convolution that keeps height and width, and the normalisation and activation
    that follow."""
    import torch

    size, chosen = _plane_of(last), last
    by_name = {s.name: s for s in seen if _once(s, seen)}
    parts = last.name.split(".")
    for depth in range(1, len(parts)):
        around = by_name.get(".".join(parts[:depth]))
        if around is not None and _plane_of(around) == size:
            chosen = around
            break
    follows = (torch.nn.modules.batchnorm._NormBase, torch.nn.GroupNorm, torch.nn.ReLU, torch.nn.ReLU6,
               torch.nn.LeakyReLU, torch.nn.ELU, torch.nn.GELU, torch.nn.SiLU, torch.nn.Hardswish)  # fmt: skip
    shape = _tensor(chosen.output).shape
    for after in seen[chosen.order + 1 :]:
        output = _tensor(after.output)
        if not isinstance(after.module, follows) or output is None or output.shape != shape or not _once(after, seen):
            break
        chosen = after
    return chosen.name


def _grid(tokens: int, image: Any, patches: tuple[int, int] | None) -> tuple[tuple[int, int], int] | None:
    """Height and width of the patches, and how many tokens stand before them."""
    if patches is not None and 0 <= tokens - patches[0] * patches[1] <= MOST_PREFIX_TOKENS:
        return patches, tokens - patches[0] * patches[1]
    height, width = image.shape[2:]
    if height == width:
        for prefix in range(3):
            side = round(max(0, tokens - prefix) ** 0.5)
            if side > 1 and side * side == tokens - prefix:
                return (side, side), prefix
    return None


def _patches(model: ImageModel, image: torch.Tensor) -> tuple[int, int] | None:
    """Height and width of the last convolution that has both: in a token network, the patch embedding."""
    import torch

    with model.uncounted(), model.working(gradient=False) as network:
        seen = _run(network, network.inner, image)
    planes = [_plane_of(s) for s in seen if isinstance(s.module, torch.nn.Conv2d)]
    found = [plane for plane in planes if plane is not None]
    return found[-1] if found else None


def _plane_of(seen: _Seen) -> tuple[int, int] | None:
    output = _tensor(seen.output)
    if output is None or output.ndim != 4 or output.shape[2] * output.shape[3] < 2:
        return None
    return int(output.shape[2]), int(output.shape[3])


def _once(one: _Seen, seen: list[_Seen]) -> bool:
    return sum(s.name == one.name for s in seen) == 1


def _tensor(output: Any) -> Any:
    import torch

    if isinstance(output, (tuple, list)) and output:
        output = output[0]
    return output if isinstance(output, torch.Tensor) else None


def _copied(output: Any) -> Any:
    """The same values in tensors of their own: what was kept stays as it was if the network writes into these."""
    import torch

    if isinstance(output, torch.Tensor):
        return output.clone()
    if type(output) in (tuple, list):
        return type(output)(_copied(part) for part in output)
    return output


def _listing(names: list[str], most: int = 8) -> str:
    shown = [n for n in names if n and "." not in n] or [n for n in names if n]
    return ", ".join(repr(n) for n in shown[:most]) + (", ..." if len(shown) > most else "")
