"""Models and explainers of images whose every answer is known beforehand."""

from __future__ import annotations

import torch

from stabgate.explainers.images import ImageExplainer

torch.set_num_threads(1)


def bright(images: torch.Tensor) -> torch.Tensor:
    """Class 1 where the mean of the image is above one half, class 0 elsewhere."""
    mean = images.mean(dim=(1, 2, 3))
    return torch.stack([1 - mean, mean], dim=1)


def flat(images: torch.Tensor) -> torch.Tensor:
    """Three outputs that nothing changes."""
    return torch.tensor([[0.0, 2.0, 1.0]]).expand(len(images), 3)


def photos(n: int, side: int = 32, *, low: float = 0.0, high: float = 1.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(n, 3, side, side, generator=generator)


class Told(ImageExplainer):
    """Explains as its function says, and keeps what it was asked: (images, targets, seeds, segments, design)."""

    needs_module = False

    def __init__(self, model, function=lambda images, seeds: images, *, name="told", cut=None):
        super().__init__(model)
        self.name, self.function, self.cut = name, function, cut
        self.asked = []

    def settings(self):
        return {"layer": "the last"}

    def segment(self, images, seeds):
        return None if self.cut is None else self.cut(images, seeds)

    def attributions(self, images, targets, seeds, segments, design):
        self.asked.append((images, targets.tolist(), list(seeds), segments, design))
        return self.function(images, seeds)

    @property
    def explained(self) -> int:
        return sum(len(images) for images, *_ in self.asked)


class Gradient(ImageExplainer):
    """Input times gradient, through torch itself; its passes are counted by the network."""

    name = "gradient"

    def settings(self):
        return {}

    def attributions(self, images, targets, seeds, segments, design):
        with self.model.working(gradient=True) as network:
            inputs = images.clone().requires_grad_(True)
            chosen = network(inputs).gather(1, targets[:, None]).sum()
            return images * torch.autograd.grad(chosen, inputs)[0]


def noise(images: torch.Tensor, seeds) -> torch.Tensor:
    """Maps that follow from the seed alone."""
    maps = [torch.rand(1, *images.shape[2:], generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(maps)


def small_network(classes: int = 3) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4)]
        return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64, classes)).eval()


def adds_up(result) -> bool:
    """Every attempted pair is one of the four, in every grouping."""
    groups = [*result.by_method(), *result.by_family(), *result.by_perturbation()]
    return all(g.retained + g.changed + g.no_signal + g.errors == g.attempted for g in groups) and sum(
        g.attempted for g in result.by_perturbation()
    ) == len(result.pairs)
