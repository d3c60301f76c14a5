"""Networks of images: left as they were, refused when they cannot be explained, batched within memory, counted."""

from __future__ import annotations

import gc
import pickle
from itertools import chain

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("captum.attr")

from image_nets import ResNet, photos, resnet  # noqa: E402
from torch import nn  # noqa: E402

import stabgate as sg  # noqa: E402
from stabgate.batches import Batches, is_out_of_memory, quickest  # noqa: E402
from stabgate.devices import available_devices, resolve_device  # noqa: E402
from stabgate.errors import InputError, ModelError  # noqa: E402
from stabgate.explainers import Captum, GradCam, LimeImage  # noqa: E402
from stabgate.explainers.image_captum import IMAGE_METHODS  # noqa: E402
from stabgate.image_models import ImageModel, Passes, image_targets  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
IMAGES, TARGETS = photos(), torch.tensor([1, 3, 0])


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def every(module, n_samples=8, **options):
    """One explainer of each kind."""
    yield from (Captum(module, method=m, **options).for_images() for m in IMAGE_METHODS)
    yield GradCam(module, **options)
    yield LimeImage(module, num_samples=n_samples, **options)


def test_the_network_is_left_as_it_was():
    module = resnet()
    expected = {e.name: e.explain(IMAGES, seed=3, target=1) for e in every(module)}
    module.train()
    module.layer1.eval()
    module.fc.weight.requires_grad_(False)
    module.stem[0].weight.grad = torch.ones_like(module.stem[0].weight)
    modes = {name: part.training for name, part in module.named_modules()}
    state = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(5)
    np.random.seed(5)
    generators = torch.get_rng_state(), np.random.get_state()[1].copy()
    for explainer in every(module):
        np.testing.assert_array_equal(explainer.explain(IMAGES, seed=3, target=1), expected[explainer.name])
        assert {name: part.training for name, part in module.named_modules()} == modes
        assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
        assert [name for name, p in module.named_parameters() if not p.requires_grad] == ["fc.weight"]
        assert [name for name, p in module.named_parameters() if p.grad is not None] == ["stem.0.weight"]
        assert torch.equal(module.stem[0].weight.grad, torch.ones_like(module.stem[0].weight))
        assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in module.modules())
        assert torch.equal(torch.get_rng_state(), generators[0])
        assert np.array_equal(np.random.get_state()[1], generators[1])
        assert "evaluation mode" in explainer.describe()["notes"][0]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # from other objects that the collector knows
def test_no_graph_is_kept():
    gc.collect()
    maps = [e.maps(IMAGES, targets=TARGETS, seeds=[0, 1, 2]) for e in every(resnet())]
    gc.collect()
    assert not any(m.requires_grad for m in maps)
    with_graph = [o for o in gc.get_objects() if isinstance(o, torch.Tensor) and o.grad_fn is not None]
    assert not with_graph


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_callers_gradient_mode_does_not_matter(mode):
    for explainer in every(resnet()):
        expected = explainer.explain(IMAGES, seed=0, target=1)
        with mode():
            found = explainer.explain(photos(), seed=0, target=1)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types_of_images_and_networks(dtype):
    """Images of another type than the network become the network's type."""
    module = resnet().to(dtype)
    for explainer in every(module):
        if dtype == torch.bfloat16 and explainer.name not in ("captum.saliency", "grad-cam", "lime-image"):
            continue  # bfloat16 is slow on a CPU
        maps = explainer.maps(IMAGES, targets=TARGETS, seeds=[0, 1, 2])
        assert maps.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        doubles = explainer.maps(IMAGES.double(), targets=TARGETS, seeds=[0, 1, 2])
        torch.testing.assert_close(doubles, maps, rtol=0, atol=1e-6 * float(maps.abs().max()))
    single = Captum(resnet(), method="saliency")
    np.testing.assert_array_equal(
        single.explain(IMAGES.double().numpy(), seed=0), single.explain(IMAGES.numpy(), seed=0)
    )


class Returning(nn.Module):
    """Two scores of an image in some shape."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.conv = nn.Conv2d(3, 2, 3)

    def forward(self, x):
        scores = self.conv(x).mean(dim=(2, 3))
        return self.shape(scores)


def test_a_single_output_is_explained_whatever_its_shape():
    torch.manual_seed(0)
    flat = Returning(lambda scores: scores[:, 1])
    column = Returning(lambda scores: scores[:, 1:])
    column.load_state_dict(flat.state_dict())
    models = (ImageModel(module, batch_size=8) for module in (flat, column))
    for one, other in zip(*map(every, models), strict=True):
        if one.name == "captum.guided-grad-cam":
            continue
        found = one.explain(IMAGES, seed=0)
        np.testing.assert_array_equal(found, other.explain(IMAGES, seed=0))
        np.testing.assert_array_equal(found, one.explain(IMAGES, seed=0, target=0))
        assert np.abs(found).max() > 0
        with pytest.raises(InputError, match="target=1 is not an output of Returning; it has 1"):
            one.explain(IMAGES, seed=0, target=1)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (lambda s: (s, s), "returned a tuple of 2; wrap it in a torch module"),
        (lambda s: {"logits": s}, "returned dict; wrap it"),
        (lambda s: s[:, :, None], r"returned shape \(3, 2, 1\) for 3 images"),
        (lambda s: s.sum(), r"returned shape \(\) for 3 images"),
        (lambda s: s.argmax(1), "returned torch.int64; return scores"),
        (lambda s: s * float("nan"), "returned nan for 3 of 3 images"),
        (lambda s: s @ torch.ones(3, 3), r"raised RuntimeError on images \(3, 3, 16, 16\)"),
        (lambda s: s + torch.rand(3, 2), "varies between identical calls"),
    ],
)
def test_networks_that_cannot_be_explained(shape, message):
    with pytest.raises(ModelError, match=message):
        Captum(Returning(shape), method="saliency").explain(IMAGES, seed=0)


def test_what_is_no_network():
    with pytest.raises(InputError, match="the class ResNet"):
        GradCam(ResNet)
    with pytest.raises(InputError, match="model is int"):
        LimeImage(3)
    with pytest.raises(InputError, match="grad-cam looks inside the network"):
        GradCam(lambda images: images.mean(dim=(2, 3)))
    with pytest.raises(InputError, match="batch_size=0"):
        ImageModel(resnet(), batch_size=0)
    model = ImageModel(resnet())
    with pytest.raises(InputError, match="belong to the ImageModel"):
        GradCam(model, device="cpu")
    assert GradCam(model).model is model


def test_targets():
    outputs = torch.tensor([[0.1, 0.9, 0.3], [0.5, 0.2, 0.1]])
    assert image_targets(None, outputs, "net").tolist() == [1, 0]
    assert image_targets(2, outputs, "net").tolist() == [2, 2]
    assert image_targets(np.array([2, 0]), outputs, "net").tolist() == [2, 0]
    assert image_targets(torch.tensor([2, 0]), outputs, "net").tolist() == [2, 0]
    for wrong, message in ((3, "target=3 is not an output"), ([0], r"shape \(1,\)"), ("cat", "'cat'"), (True, "True")):
        with pytest.raises(InputError, match=message):
            image_targets(wrong, outputs, "net")


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (photos() * 2, "outside"),
        ((photos() * 255).byte(), "uint8"),
        (photos().permute(0, 2, 3, 1), "channels last"),
        (photos() * float("nan"), "NaN"),
        (photos()[0], "one image"),
    ],
)
def test_what_are_no_images(images, message):
    for explainer in every(resnet()):
        with pytest.raises(InputError, match=message):
            explainer.explain(images, seed=0)


def test_arguments_of_maps():
    explainer = Captum(resnet(), method="saliency").for_images()
    for ask, message in (
        ({"targets": TARGETS[:2], "seeds": [0] * 3}, "targets has shape"),
        ({"targets": TARGETS, "seeds": [0] * 2}, "seed has 2 values for 3"),
        ({"targets": TARGETS, "seeds": [0, 1, -1]}, "seed -1"),
        ({"targets": TARGETS, "seeds": [0] * 3, "segments": torch.zeros(3, 4, 4).long()}, "segments has shape"),
        ({"targets": TARGETS, "seeds": [0] * 3, "design": [1]}, "design has 1"),
    ):
        with pytest.raises(InputError, match=message):
            explainer.maps(IMAGES, **ask)
    with pytest.raises(InputError, match="empty"):
        explainer.maps(IMAGES[:0], targets=TARGETS[:0], seeds=[])


def test_devices():
    assert available_devices()[0] == "cpu"
    assert resolve_device("cpu").type == "cpu"
    assert resolve_device(torch.device("cpu")).type == "cpu"
    missing = "mps" if "mps" not in available_devices() else "cuda:63"
    for device, message in ((missing, "is not available here; there is cpu"), ("gpu", "'auto'"), (None, "'auto'")):
        for build in (Captum, GradCam, LimeImage, ImageModel):
            with pytest.raises(InputError, match=message):
                build(resnet(), device=device)
    assert str(Captum(resnet(), device="cpu").for_images().model.device) == "cpu"


def test_passes_are_counted_and_predictions_apart():
    explainer = Captum(resnet(), n_steps=20).for_images()
    explainer.model.predict(IMAGES)
    assert explainer.model.passes == Passes(3, 0)
    explainer.maps(IMAGES, targets=TARGETS, seeds=[0] * 3)
    assert explainer.passes == Passes(60, 60)
    assert explainer.model.passes - Passes(3, 0) == explainer.passes
    assert Passes(1, 2) + Passes(3, 4) == Passes(4, 6)


def test_batches_are_halved_until_they_fit_and_nothing_is_skipped():
    batches, tried = Batches(), []

    def work(start, end):
        tried.append(end - start)
        if end - start > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return list(range(start, end))

    results = batches.run("kind", 10, work, lambda: 16, "net")
    assert list(chain(*results)) == list(range(10))
    assert tried == [10, 5, 2, 2, 2, 2, 2]
    tried.clear()
    assert list(chain(*batches.run("kind", 4, work, lambda: 16, "net"))) == [0, 1, 2, 3]
    assert tried == [2, 2]
    with pytest.raises(ZeroDivisionError):
        batches.run("kind", 4, lambda start, end: 1 / 0, lambda: 16, "net")
    assert is_out_of_memory(RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"))
    assert is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 9.00 GB)"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_the_quickest_batch_is_measured(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("stabgate.batches.time.perf_counter", lambda: clock[0])

    def taking(seconds):
        def run(size):
            clock[0] += seconds(size)

        return run

    assert quickest(taking(lambda size: 0.002 * size**2)) == 1
    assert quickest(taking(lambda size: 0.002)) == 64
    assert quickest(taking(lambda size: 0.001 + 0.0001 * size**2)) in (2, 4)  # the least time per row is at 3.2


def test_measuring_happens_once_and_a_given_size_is_kept():
    images = photos(20)
    explainer = Captum(resnet(), method="saliency").for_images()
    maps = explainer.maps(images, targets=torch.zeros(20).long(), seeds=[0] * 20)
    assert set(explainer.model.batches.sizes) == {("cpu", True, (3, 16, 16))}
    assert explainer.passes == Passes(20, 20)
    fixed = ImageModel(resnet(), batch_size=3)
    other = Captum(fixed, method="saliency").for_images()
    found = other.maps(images, targets=torch.zeros(20).long(), seeds=[0] * 20)
    torch.testing.assert_close(found, maps, rtol=0, atol=1e-6 * float(maps.abs().max()))
    assert fixed.batches.sizes == {("cpu", True, (3, 16, 16), 3): 3}
    again = Captum(explainer.model.given, method="saliency").for_images()
    assert again.model.batches is explainer.model.batches


def test_a_network_that_writes_into_its_images_does_not_change_them():
    class Writing(nn.Module):
        def forward(self, x):
            return x.sub_(0.5).mul_(2.0).mean(dim=(2, 3))

    images = photos()
    for method in ("integrated-gradients", "saliency", "occlusion"):
        Captum(Writing(), method=method).explain(images, seed=0)
    torch.testing.assert_close(images, photos(), rtol=0, atol=0)


def test_explainers_travel():
    for explainer in every(resnet()):
        expected = explainer.explain(IMAGES, seed=1)
        copy = pickle.loads(pickle.dumps(explainer))
        np.testing.assert_array_equal(copy.explain(IMAGES, seed=1), expected)


def test_another_device_is_another_model_of_the_same_network():
    explainer = GradCam(resnet(), normalize=((0.5,), (0.5,)))
    other = explainer.on("cpu")
    assert other.model is not explainer.model
    assert other.model.given is explainer.model.given
    np.testing.assert_array_equal(other.explain(IMAGES, seed=0), explainer.explain(IMAGES, seed=0))
    record = other.describe()
    assert record["network"] == {
        "device": "cpu", "dtype": "float32", "normalize": {"mean": [0.5], "std": [0.5]},
    }  # fmt: skip


def test_a_batch_of_one_through_batch_normalisation():
    module = resnet()
    module.train()
    for explainer in every(module):
        assert explainer.explain(photos(1), seed=0).shape[0] == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_maps_on_an_accelerator_are_those_of_the_cpu():
    """Methods that draw noise on the device differ by design; the others agree to single precision."""
    module = resnet()
    for one, other in zip(every(module, device="cpu"), every(module, device="cuda:0"), strict=True):
        expected = one.maps(IMAGES, targets=TARGETS, seeds=[0, 1, 2])
        found = other.maps(IMAGES.cuda(), targets=TARGETS.cuda(), seeds=[0, 1, 2])
        assert found.device.type == "cuda"
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=1e-3 * float(expected.abs().max()))
        assert other.passes == one.passes
    assert next(module.parameters()).device.type == "cpu"


def test_names():
    assert sg.explainers.GradCam is GradCam
    assert sg.ImageModel is ImageModel
