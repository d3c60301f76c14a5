"""Grad-CAM and its layers: reference values, direct calls, layers found and refused, tokens."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
attr = pytest.importorskip("captum.attr")

from image_nets import photos, resnet, settled, vit  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.functional import interpolate, relu  # noqa: E402

from stabgate.errors import ExplainerError, InputError  # noqa: E402
from stabgate.explainers import Captum, GradCam  # noqa: E402
from stabgate.explainers.layers import find_layer  # noqa: E402
from stabgate.image_models import ImageModel, Passes  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
IMAGES, TARGETS = photos(), torch.tensor([1, 3, 0])


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class ConvOne(nn.Module):
    """The network behind the reference values, as their file describes it; it takes values outside [0, 1]."""

    def __init__(self):
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(1, 2, 3), nn.ReLU()
        self.fc1, self.relu2 = nn.Linear(8, 4), nn.ReLU()
        with torch.no_grad():
            self.conv1.weight.fill_(1.0)
            self.conv1.bias.copy_(torch.tensor([-50.0, -75.0]))
            self.fc1.weight.copy_(torch.tensor([[1.0] * 5 + [-1.0] * 3] * 4))
            self.fc1.bias.zero_()

    def forward(self, x):
        return self.relu2(self.fc1(self.relu1(self.conv1(x)).flatten(1)))


def test_reference_values_of_captums_own_tests(shared):
    cases = json.loads((shared / "reference" / "captum_expected.json").read_text())["grad_cam_target0_no_relu"]
    for case in cases:
        image = torch.arange(16.0).reshape(1, 1, 4, 4) + (1.0 if case["x"].endswith("+1") else 0.0)
        cam = GradCam(ConvOne(), layer=case["layer"])
        found = cam.maps(image, targets=torch.tensor([0]), seeds=[0])
        plane = torch.tensor(case["expected"])[None, None]
        # Resized from 2 x 2 to 4 x 4 with corners not aligned: the quarter points between the values.
        ends = torch.tensor([[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]])
        torch.testing.assert_close(found[0, 0], ends @ plane[0, 0] @ ends.T)
    assert len(cases) == 3


@pytest.mark.parametrize("layer", ["layer1", "layer2.0.conv1", "layer2.1.bn2", "layer2.1.relu2", "stem.2"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_equals_direct_calls(layer, inplace, positive):
    """The direct call is of the network without in-place operations: with them the map is the same."""
    plain, module = resnet(), resnet(inplace=inplace)
    maps = GradCam(module, layer=layer, relu=positive).maps(IMAGES, targets=TARGETS, seeds=[0] * 3)
    direct = attr.LayerGradCam(plain, plain.get_submodule(layer))
    for i, target in enumerate(TARGETS.tolist()):
        plane = direct.attribute(IMAGES[i : i + 1].clone().requires_grad_(), target=target, relu_attributions=positive)
        expected = interpolate(plane, (16, 16), mode="bilinear", align_corners=False)[0]
        torch.testing.assert_close(maps[i], expected.detach(), rtol=1e-5, atol=1e-6 * float(expected.abs().max()))
    assert float(maps.abs().max()) > 0
    assert float(maps.min()) >= 0 or not positive


def test_by_hand():
    module = resnet()
    found = GradCam(module, layer="layer2").maps(IMAGES, targets=TARGETS, seeds=[0] * 3)
    with torch.no_grad():
        values = module.layer2(module.down(module.layer1(module.stem(IMAGES))))
    # The head is linear in the plane: each weight is the head's, over the number of places.
    weights = module.fc.weight[TARGETS].detach() / values[0, 0].numel()
    plane = (weights[:, :, None, None] * values).sum(dim=1, keepdim=True)
    torch.testing.assert_close(found, interpolate(plane, (16, 16), mode="bilinear"), rtol=1e-4, atol=1e-7)
    cam = GradCam(module)
    torch.testing.assert_close(cam.maps(IMAGES, targets=TARGETS, seeds=[0] * 3), found, rtol=0, atol=0)
    assert cam.settings() == {"layer": "layer2", "layer_by": "search", "relu": False}
    assert cam.passes == Passes(3, 3)


def sequential(*parts):
    torch.manual_seed(0)
    return settled(nn.Sequential(*parts))


def conv(channels=4, source=3, **options):
    return nn.Conv2d(source, channels, 3, padding=1, **options)


def head(channels=4):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 2)


class Squeeze(nn.Module):
    """Squeeze and excitation: its last convolutions see one place."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool, self.gate = conv(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        x = self.conv(x)
        return x * torch.sigmoid(self.gate(self.pool(x)))


class Shared(nn.Module):
    """One ReLU for the whole network."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.relu, self.fc = conv(), conv(4, 4), nn.ReLU(), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(self.relu(self.two(self.relu(self.one(x)))).mean(dim=(2, 3)))


FOUND = {
    "residual": (lambda: resnet(), "layer2"),
    "in place": (lambda: resnet(inplace=True), "layer2"),
    "vgg": (lambda: sequential(nn.Sequential(conv(), nn.ReLU(), nn.MaxPool2d(2), conv(4, 4), nn.ReLU(True),
                                             nn.MaxPool2d(2)), *head()), "0.4"),
    "dense": (lambda: sequential(nn.Sequential(conv(), nn.BatchNorm2d(4)), nn.ReLU(), *head()), "1"),
    "squeeze": (lambda: sequential(Squeeze(), *head()), "0"),
    "shared relu": (lambda: settled(Shared()), "two"),
    "class token": (lambda: vit(), "blocks.1"),
    "mean of tokens": (lambda: vit(head="mean"), "blocks.2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOUND)
def test_layers_that_are_found(kind):
    build, expected = FOUND[kind]
    assert find_layer(ImageModel(build()), IMAGES[:1], 1).name == expected


class BatchSecond(nn.Module):
    """Torch's own encoder in its default layout (tokens, n, channels)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 8, 4, 4)
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
        self.encoder, self.fc = nn.TransformerEncoder(block, 2, enable_nested_tensor=False), nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(self.encoder(self.patches(x).flatten(2).permute(2, 0, 1)).mean(dim=0))


def test_tokens_in_another_layout_need_a_reshape():
    module = BatchSecond()
    with pytest.raises(InputError, match="works on tokens after its last convolution 'patches'"):
        GradCam(module).explain(IMAGES, seed=0)
    found = GradCam(
        module, layer="encoder.layers.1", reshape=lambda tokens: tokens.permute(1, 2, 0).unflatten(2, (4, 4))
    ).explain(IMAGES, seed=0, target=0)
    # The head is linear in the tokens of the last block, so each weight is the head's over their number.
    with torch.no_grad():
        tokens = module.encoder.eval()(module.patches(IMAGES).flatten(2).permute(2, 0, 1))
        plane = (tokens @ module.fc.weight[0] / 16).T.reshape(3, 1, 4, 4)
    expected = interpolate(plane, (16, 16), mode="bilinear").numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_class_token_networks_get_a_map_where_the_last_block_has_none():
    """At the last block the gradients of the patch tokens are exactly zero; at the one before they are not."""
    module, targets = vit(), torch.tensor([0, 1, 2])
    last = GradCam(module, layer="blocks.2").maps(IMAGES, targets=targets, seeds=[0] * 3)
    assert float(last.abs().max()) == 0.0
    cam = GradCam(module)
    found = cam.maps(IMAGES, targets=targets, seeds=[0] * 3)
    assert found.flatten(1).std(dim=1).min() > 0
    assert cam.settings() == {
        "layer": "blocks.1", "layer_by": "search", "relu": False, "tokens": [4, 4], "tokens_dropped": 1,
    }  # fmt: skip

    # By Captum, on the rest of the network as a network of the plane of patches.
    class Rest(nn.Module):
        def __init__(self):
            super().__init__()
            self.plane = nn.Identity()

        def forward(self, x):
            tokens = module.patches(x).flatten(2).transpose(1, 2)
            tokens = torch.cat([module.token.expand(len(x), -1, -1), tokens], dim=1)
            tokens = module.blocks[1](module.blocks[0](tokens))
            plane = self.plane(tokens[:, 1:].transpose(1, 2).unflatten(2, (4, 4)))
            tokens = torch.cat([tokens[:, :1], plane.flatten(2).transpose(1, 2)], dim=1)
            return module.fc(module.norm(module.blocks[2](tokens))[:, 0])

    rest = Rest()
    plane = attr.LayerGradCam(rest, rest.plane).attribute(IMAGES.clone().requires_grad_(), target=targets)
    expected = interpolate(plane.detach(), (16, 16), mode="bilinear")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))

    reshaped = GradCam(
        module, layer="blocks.1", reshape=lambda tokens: tokens[:, 1:].transpose(1, 2).unflatten(2, (4, 4))
    )
    torch.testing.assert_close(reshaped.maps(IMAGES, targets=targets, seeds=[0] * 3), found)


def test_a_layer_by_module_and_layers_that_are_refused():
    module = resnet()
    by_name = GradCam(module, layer="layer1.1").maps(IMAGES, targets=TARGETS, seeds=[0] * 3)
    torch.testing.assert_close(
        GradCam(module, layer=module.layer1[1]).maps(IMAGES, targets=TARGETS, seeds=[0] * 3), by_name
    )
    with pytest.raises(InputError, match=r"layer='layer3' is not a layer of ResNet; did you mean 'layer[12]'"):
        GradCam(module, layer="layer3")
    with pytest.raises(InputError, match="there are 'stem', 'layer1', 'down'"):
        GradCam(module, layer="xyz")
    with pytest.raises(InputError, match="not a part of ResNet"):
        GradCam(module, layer=nn.ReLU())
    with pytest.raises(InputError, match=r"'fc' of ResNet returns \(1, 4\), which has no height"):
        GradCam(module, layer="fc").explain(IMAGES, seed=0)
    with pytest.raises(InputError, match="'relu' of Shared runs 2 times"):
        GradCam(settled(Shared()), layer="relu").explain(IMAGES, seed=0)
    module.unused = nn.Conv2d(3, 3, 1)
    with pytest.raises(InputError, match="'unused' of ResNet runs not at all"):
        GradCam(module, layer="unused").explain(IMAGES, seed=0)
    with pytest.raises(InputError, match="name one with layer="):
        GradCam(nn.Sequential(nn.Flatten(), nn.Linear(768, 2))).explain(IMAGES, seed=0)
    with pytest.raises(InputError, match="name that layer"):
        GradCam(module, reshape=lambda x: x)
    with pytest.raises(InputError, match=r"reshape returned \(8, 8, 8\)"):
        GradCam(module, layer="layer2", reshape=lambda x: x[0]).explain(IMAGES, seed=0)


def test_a_frozen_network_has_a_map():
    module = resnet()
    expected = GradCam(module).explain(IMAGES, seed=0)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    np.testing.assert_array_equal(GradCam(module).explain(IMAGES, seed=0), expected)
    assert not any(p.requires_grad for p in module.parameters())


def test_guided_grad_cam_is_refused_where_a_rectifier_writes_into_what_others_read():
    """Captum gives each rectifier a copy, and so the network another function."""

    class Aliased(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.one, self.relu, self.fc = conv(), nn.ReLU(inplace=True), nn.Linear(4, 2)

        def forward(self, x):
            x = self.one(x)
            return self.fc((self.relu(x) + x).mean(dim=(2, 3)))

    with pytest.raises(ExplainerError, match="writes into its input"):
        Captum(Aliased(), method="guided-grad-cam", layer="one").explain(IMAGES, seed=0)


class Functional(nn.Module):
    def __init__(self, rectify=relu, also=False):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.fc = conv(), conv(4, 4), nn.Linear(4, 2)
        self.rectify, self.module = rectify, nn.ReLU() if also else rectify

    def forward(self, x):
        return self.fc(self.rectify(self.two(self.module(self.one(x)))).mean(dim=(2, 3)))


def test_guided_grad_cam_is_refused_where_it_would_not_be_guided():
    """Captum returns the plain gradient there, without a word."""
    module = Functional()
    guided = attr.GuidedBackprop(module).attribute(IMAGES.clone(), target=1)
    plain = attr.Saliency(module).attribute(IMAGES.clone(), target=1, abs=False)
    torch.testing.assert_close(guided, plain)
    for network, message in (
        (Functional(), r"runs none \(its rectifiers are functions or ReLU6\)"),
        (Functional(nn.ReLU6()), r"runs none \(its rectifiers"),
        (Functional(also=True), r"of the 2 rectifiers that Functional runs, 1 are no nn\.ReLU"),
        (Functional(torch.tanh), r"runs none \(it has none\)"),
    ):
        with pytest.raises(ExplainerError, match=message):
            Captum(network, method="guided-grad-cam", layer="two").explain(IMAGES, seed=0)
    with pytest.raises(ExplainerError, match="runs none"):
        Captum(vit(), method="guided-grad-cam").explain(IMAGES, seed=0)


@pytest.mark.parametrize("kind", ["in place", "reused"])
def test_guided_grad_cam_of_rectifiers_in_place_and_reused(kind):
    """By hand: gradients through each rectifier pass where its input and the gradient are positive."""
    torch.manual_seed(0)
    one, two, fc = conv(), conv(4, 4), nn.Linear(4, 2)
    shared = nn.ReLU(inplace=kind == "in place")
    other = shared if kind == "reused" else nn.ReLU(inplace=True)
    module = nn.Sequential(one, shared, two, other, nn.AdaptiveAvgPool2d(1), nn.Flatten(), fc)
    found = Captum(module, method="guided-grad-cam", layer="2").explain(IMAGES, seed=0, target=1)

    class Guided(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient.clamp(min=0) * (x > 0)

    images = IMAGES.clone().requires_grad_()
    fc(Guided.apply(two(Guided.apply(one(images)))).mean(dim=(2, 3)))[:, 1].sum().backward()
    values = two(relu(one(IMAGES))).detach().requires_grad_()
    fc(relu(values).mean(dim=(2, 3)))[:, 1].sum().backward()
    plane = (values.grad.mean(dim=(2, 3), keepdim=True) * values).sum(dim=1, keepdim=True).clamp(min=0)
    expected = images.grad * interpolate(plane.detach(), (16, 16), mode="bilinear")
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5 * float(expected.abs().max()))
    assert np.abs(found).max() > 0
