"""A user's function as a perturbation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stabgate.errors import InputError
from stabgate.perturbations.base import FAMILIES, Family, Perturbation, all_valid, check_labels

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CustomPerturbation(Perturbation):
    """What `Perturbation.custom` returns; the arguments are explained there."""

    name: str
    severity: float
    family: Family
    function: Callable[..., torch.Tensor]
    random: bool = False
    inverse: Callable[[torch.Tensor], Any] | None = None
    labels: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"name={self.name!r}: give the perturbation a name")
        if self.family not in FAMILIES:
            raise InputError(f"{self.name}: family={self.family!r}; choose one of {', '.join(FAMILIES)}")
        for option in ("function", "inverse", "labels"):
            value = getattr(self, option)
            if not callable(value) and (option == "function" or value is not None):
                raise InputError(f"{self.name}: {option}={value!r} cannot be called")
        if self.family != "geometric" and (self.inverse is not None or self.labels is not None):
            raise InputError(f"{self.name} is {self.family}, which moves no pixel: leave out inverse= and labels=")

    def transform(self, images: torch.Tensor) -> torch.Tensor:
        return self.function(images)

    def draw(self, images: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
        return self.function(images, seeds)

    def invert(self, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.inverse is None:
            return super().invert(maps)
        back = self.inverse(maps)
        return (back[0], back[1]) if isinstance(back, tuple | list) else (back, all_valid(maps))

    def warp_labels(self, labels: Any) -> Any:
        if self.labels is None:
            return super().warp_labels(labels)
        check_labels(labels)
        return self.labels(labels)
