"""torch, when it is there: the one place where the image rooms ask for it."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from stabgate.errors import MissingDependencyError

if TYPE_CHECKING:
    import torch


def require_torch(purpose: str) -> ModuleType:
    """Import torch, or say what brings it.

    Args:
        purpose: what cannot be done without it, as the start of a sentence: "comparing attribution maps".

    Raises:
        MissingDependencyError: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f'{purpose} needs torch, which is not installed: pip install "stabgate[torch]"'
        ) from error
    return torch


def float64_device(device: torch.device) -> torch.device:
    """The device on which float64 arithmetic for tensors of `device` runs: Apple's GPUs have none."""
    import torch

    return torch.device("cpu") if device.type == "mps" else device
