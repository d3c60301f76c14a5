"""Which device a network works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError
from stabgate.similarity.backend import require_torch

if TYPE_CHECKING:
    import torch


def resolve_device(device: Any, module: torch.nn.Module | None = None) -> torch.device:
    """The torch device that `device` means.

    "auto" is the accelerator that the module is on already; else "cuda" where there is one; else "mps" where
    there is one and the module holds no float64 (which Apple's GPUs cannot compute); else the CPU.

    Args:
        device: "auto", "cpu", "cuda", "cuda:0", "mps" or a torch.device.
        module: the network that will work there.

    Raises:
        InputError: no such device, or it is not there.
    """
    require_torch("explaining images")
    import torch

    if isinstance(device, str) and device == "auto":
        return _automatic(module)
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device={device!r}: give 'auto', 'cpu', 'cuda:0' or 'mps'") from error
    if chosen.type not in ("cpu", "cuda", "mps"):
        raise InputError(f"device={device!r}: give 'auto', 'cpu', 'cuda:0' or 'mps'")
    present = available_devices()
    name = f"cuda:{chosen.index or 0}" if chosen.type == "cuda" else chosen.type
    if name not in present:
        raise InputError(f"device={str(device)!r} is not available here; there is {', '.join(present)}")
    return chosen


def available_devices() -> tuple[str, ...]:
    """Names of the devices that are there: "cpu", then "cuda:0", ..., then "mps"."""
    import torch

    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ("cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else []))


def home_of(module: torch.nn.Module) -> tuple[torch.dtype, torch.device]:
    """Type and device of the module's first floating-point parameter or buffer; the default type and the CPU
    where it has none."""
    import torch

    for own in (*module.parameters(), *module.buffers()):
        if own.is_floating_point():
            return own.dtype, own.device
    return torch.get_default_dtype(), torch.device("cpu")


def _automatic(module: torch.nn.Module | None) -> torch.device:
    import torch

    dtype, home = (None, torch.device("cpu")) if module is None else home_of(module)
    if home.type != "cpu":
        return home
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if torch.backends.mps.is_available() and dtype != torch.float64:
        return torch.device("mps")
    return torch.device("cpu")
