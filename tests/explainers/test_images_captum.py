"""Captum's methods on images: equal to direct calls of Captum, image by image."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
attr = pytest.importorskip("captum.attr")

from captum._utils.models.linear_model import SkLearnRidge  # noqa: E402
from image_nets import photos, resnet  # noqa: E402
from torch import nn  # noqa: E402

from stabgate.errors import ExplainerError, InputError  # noqa: E402
from stabgate.explainers import Captum, GradCam  # noqa: E402
from stabgate.explainers.image_captum import IMAGE_METHODS, ImageCaptum  # noqa: E402
from stabgate.image_models import Passes  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
IMAGES, TARGETS, SEEDS = photos(), torch.tensor([1, 3, 0]), [7, 8, 2**32 - 1]
BLACK = torch.zeros(1, 3, 16, 16)
QUARTERS = torch.arange(4).reshape(2, 2).repeat_interleave(8, 0).repeat_interleave(8, 1)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def quarters(image):
    assert image.shape == (16, 16, 3)
    return QUARTERS.numpy()


DIRECT = {
    "integrated-gradients": lambda m, x, t: attr.IntegratedGradients(m).attribute(x, BLACK.to(x), target=t, n_steps=50),
    "gradient-shap": lambda m, x, t: attr.GradientShap(m).attribute(x, BLACK.to(x), target=t, n_samples=5),
    "saliency": lambda m, x, t: attr.Saliency(m).attribute(x, target=t, abs=False),
    "input-x-gradient": lambda m, x, t: attr.InputXGradient(m).attribute(x, target=t),
    "occlusion": lambda m, x, t: attr.Occlusion(m).attribute(
        x, sliding_window_shapes=(3, 2, 2), strides=(3, 1, 1), baselines=BLACK.to(x), target=t
    ),
    "guided-grad-cam": lambda m, x, t: attr.GuidedGradCam(m, m.layer2).attribute(
        x, target=t, interpolate_mode="bilinear"
    ),
    "lime": lambda m, x, t: attr.Lime(m, interpretable_model=SkLearnRidge(alpha=1.0)).attribute(
        x, BLACK.to(x), target=t, n_samples=50, feature_mask=QUARTERS[None, None].expand(1, 3, 16, 16)
    ),
}
PASSES = {
    "integrated-gradients": Passes(50, 50),
    "gradient-shap": Passes(5, 5),
    "saliency": Passes(1, 1),
    "input-x-gradient": Passes(1, 1),
    "occlusion": Passes(226, 0),  # 15 x 15 places and the image itself
    "guided-grad-cam": Passes(2, 2),
    "lime": Passes(50, 0),
}


def seeded(seed, call):
    torch.manual_seed(seed)
    np.random.seed(seed)
    return call().detach()[0]


def close(found, expected):
    """Equal to rounding: 1e-6 of the largest value, whatever the batches."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))


@pytest.mark.parametrize("method", IMAGE_METHODS)
@pytest.mark.parametrize("batch", [None, 3])
def test_equals_direct_calls_image_by_image(method, batch):
    # Differences of outputs lose digits; in float64 rounding of the outputs does not hide what is compared.
    dtype = torch.float64 if method in ("occlusion", "lime") else torch.float32
    module = resnet().to(dtype)
    options = {"segmentation": quarters} if method == "lime" else {}
    explainer = Captum(module, method=method, **options).for_images()
    explainer.model.fixed_batch = batch
    maps = explainer.maps(IMAGES, targets=TARGETS, seeds=SEEDS)
    assert maps.shape == IMAGES.shape
    assert not maps.requires_grad
    assert explainer.passes == Passes(3 * PASSES[method].forward, 3 * PASSES[method].backward)
    for i, seed in enumerate(SEEDS):
        call = lambda i=i: DIRECT[method](module, IMAGES[i : i + 1].to(dtype), int(TARGETS[i]))  # noqa: E731
        close(maps[i].numpy(), seeded(seed, call).numpy())
    assert float(maps.abs().max()) > 0
    assert explainer.name == f"captum.{method}"


@pytest.mark.parametrize("kind", ["smoothgrad", "smoothgrad_sq", "vargrad"])
def test_noise_tunnels_equal_direct_calls(kind):
    module = resnet()
    explainer = ImageCaptum(module, method="saliency", noise_tunnel=kind, nt_samples=7)
    maps = explainer.maps(IMAGES, targets=TARGETS, seeds=SEEDS)
    for i, seed in enumerate(SEEDS):

        def call(i=i):
            return attr.NoiseTunnel(attr.Saliency(module)).attribute(
                IMAGES[i : i + 1].clone(), nt_type=kind, nt_samples=7, stdevs=0.15, target=int(TARGETS[i]), abs=False
            )

        close(maps[i].numpy(), seeded(seed, call).numpy())
    assert explainer.passes == Passes(21, 21)
    assert explainer.random
    assert explainer.name == f"captum.saliency+{kind}"


def test_gradient_shap_draws_from_a_background():
    module, background = resnet(), photos(5, seed=9)
    explainer = Captum(module, method="gradient-shap", background=background, n_samples=8, stdevs=0.1)
    values = explainer.explain(IMAGES[:1], seed=4, target=2)
    direct = attr.GradientShap(module)
    expected = seeded(4, lambda: direct.attribute(IMAGES[:1], background, target=2, n_samples=8, stdevs=0.1))
    close(values[0], expected.numpy())
    assert explainer.describe()["settings"]["background_images"] == 5
    with pytest.raises(InputError, match=r"background has images \(3, 16, 16\)"):
        explainer.explain(photos(1, side=12), seed=0)


@pytest.mark.parametrize("baseline", [0.5, (0.1, 0.2, 0.3)])
def test_baselines_are_numbers_of_the_image(baseline):
    module = resnet()
    values = Captum(module, baseline=baseline).explain(IMAGES[:1], seed=0, target=1)
    baselines = torch.tensor(np.broadcast_to(baseline, 3).copy(), dtype=torch.float32)[None, :, None, None]
    expected = attr.IntegratedGradients(module).attribute(
        IMAGES[:1], baselines.expand_as(IMAGES[:1]), target=1, n_steps=50
    )
    close(values[0], expected[0].detach().numpy())


def test_normalisation_is_inside_and_the_map_belongs_to_the_image():
    """Integrated gradients from black of a linear function of (x - mean) / std: weight / std times x."""

    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(-1, 1, 3 * 4 * 4).reshape(3, 4, 4))

        def forward(self, x):
            return (x * self.weight).sum(dim=(1, 2, 3))

    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.5)
    module, images = Linear(), photos(2, side=4)
    expected = (module.weight / torch.tensor(std)[:, None, None] * images).detach().numpy()
    shift, scale = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]
    for normalize in ((mean, std), lambda x: (x - shift) / scale):
        values = Captum(module, normalize=normalize).explain(images, seed=0)
        np.testing.assert_allclose(values, expected, atol=1e-5)
    with pytest.raises(InputError, match="standard deviations above 0"):
        Captum(module, normalize=((0.5,), (0.0,)))
    with pytest.raises(InputError, match="for images"):
        Captum(nn.Linear(2, 1), normalize=(mean, std)).explain(np.zeros((1, 2)), seed=0)


def test_occlusion_by_hand():
    """One window of the whole image: the output on the image less the output on the baseline, everywhere."""
    module = resnet()
    values = Captum(module, method="occlusion", window=16, baseline=0.5).explain(IMAGES, seed=0, target=1)
    with torch.no_grad():
        difference = (module(IMAGES) - module(torch.full_like(IMAGES, 0.5)))[:, 1]
    np.testing.assert_allclose(values, difference[:, None, None, None].expand(values.shape).numpy(), rtol=1e-5)
    with pytest.raises(InputError, match="window=17 is larger"):
        Captum(module, method="occlusion", window=17).explain(IMAGES, seed=0)
    with pytest.raises(InputError, match="stride=5 is larger than window=4"):
        Captum(module, method="occlusion", window=4, stride=5).explain(IMAGES, seed=0)


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_captums_lime_keeps_the_design_when_a_segment_left_the_image(missing):
    """By hand: the same draws as with all segments, of which the missing one changes nothing in the image."""
    from sklearn.linear_model import Ridge

    module, image = resnet(), IMAGES[:1]
    labels = QUARTERS.clone()
    labels[labels == missing] = (missing + 1) % 4
    explainer = ImageCaptum(module, method="lime", n_samples=40)
    found = explainer.maps(image, targets=torch.tensor([1]), seeds=[5], segments=labels[None], design=[4])

    torch.manual_seed(5)
    shown = torch.stack([torch.bernoulli(torch.ones(4) * 0.5) for _ in range(40)])
    copies = torch.stack([image[0] * row[labels] for row in shown])
    with torch.no_grad():
        outputs = module(copies)[:, 1].numpy()
    cosine = torch.nn.functional.cosine_similarity(image.flatten(1), copies.flatten(1))
    weights = np.exp(-((1 - cosine.numpy()) ** 2) / 2)
    ridge = Ridge(alpha=1.0).fit(shown.numpy(), outputs, sample_weight=weights)
    expected = ridge.coef_[labels.numpy()]
    np.testing.assert_allclose(found[0], np.broadcast_to(expected, (3, 16, 16)), atol=1e-5 * np.abs(expected).max())
    with pytest.raises(InputError, match="reach label 3, and design says there are 3"):
        explainer.maps(image, targets=torch.tensor([1]), seeds=[5], segments=QUARTERS[None], design=[3])


def test_memory_that_runs_out_changes_no_value_and_skips_nothing():
    class Small(nn.Module):
        """Raises above five images at a time, as an accelerator does."""

        def __init__(self):
            super().__init__()
            self.net, self.largest = resnet().double(), 0

        def forward(self, x):
            if len(x) > 5:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            self.largest = max(self.largest, len(x))
            return self.net(x)

    images, targets, seeds = photos(13), torch.arange(13) % 4, list(range(13))
    explainers = {method: {"method": method} for method in IMAGE_METHODS}
    explainers["guided-grad-cam"] |= {"layer": "net.layer2"}
    for options in explainers.values():
        if options["method"] in ("integrated-gradients", "occlusion"):
            images, targets, seeds = photos(2), torch.tensor([0, 1]), [0, 1]
        module = Small()
        tight = ImageCaptum(module, **options)
        tight.model.fixed_batch = 64
        maps = tight.maps(images, targets=targets, seeds=seeds)
        options = options | ({"layer": "layer2"} if "layer" in options else {})
        expected = ImageCaptum(module.net, **options).maps(images, targets=targets, seeds=seeds)
        close(maps.numpy(), expected.numpy())
        assert module.largest <= 5
    cam = GradCam(Small(), layer="net.layer2")
    cam.model.fixed_batch = 13
    images, targets = photos(13), torch.arange(13) % 4
    assert tuple(cam.maps(images, targets=targets, seeds=[0] * 13).shape) == (13, 1, 16, 16)
    assert set(cam.model.batches.sizes.values()) <= {3}
    assert cam.model.predict(images).shape == (13, 4)


def test_memory_that_never_suffices_is_an_error():
    class Hopeless(nn.Module):
        def forward(self, x):
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(ExplainerError, match="on one image alone"):
        Captum(Hopeless(), method="saliency").for_images().maps(IMAGES, targets=TARGETS, seeds=SEEDS)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({"method": "occlusion", "window": 0}, "window=0"),
        ({"method": "occlusion", "n_steps": 3}, "it has window, stride"),
        ({"method": "occlusion", "baseline": 1.5}, "numbers in"),
        ({"method": "guided-grad-cam", "layer": "layer3"}, "did you mean 'layer"),
        ({"method": "input-x-gradient", "baseline": 0.5}, "has no baseline"),
        ({"method": "deeplift", "normalize": ((0.5,), (0.5,))}, "method='deeplift'"),
        ({"method": "lime", "segmentation": "felzenszwalb"}, "segmentation='felzenszwalb'"),
        ({"method": "occlusion", "noise_tunnel": "smoothgrad"}, "not occlusion"),
        ({"method": "occlusion", "background": IMAGES}, "for gradient-shap"),
        ({"device": "tpu"}, "'auto', 'cpu', 'cuda:0'"),
    ],
)
def test_options_that_do_not_exist(ask, message):
    with pytest.raises(InputError, match=message):
        Captum(resnet(), **ask)


def test_one_class_for_tables_and_images():
    module = resnet()
    both = Captum(module)
    assert both.explain(IMAGES.numpy(), seed=0).shape == (3, 3, 16, 16)
    assert both.for_images() is both.for_images()
    table = Captum(nn.Linear(4, 2), method="saliency")
    assert table.explain(np.zeros((2, 4)), seed=0).shape == (2, 4)
    with pytest.raises(InputError, match="images only as it is set up: method='occlusion'"):
        Captum(module, method="occlusion").prepare(np.zeros((2, 4)))
    with pytest.raises(InputError, match="none of Captum's here"):
        Captum(module, method="kernel-shap").explain(IMAGES, seed=0)
    with pytest.raises(InputError, match="torch module"):
        Captum(lambda x: x.mean(dim=(2, 3)), method="occlusion")
    record = Captum(module, method="occlusion", window=4).describe()
    assert record["explainer"] == "captum.occlusion"
    assert record["settings"] == {
        "method": "occlusion", "window": 4, "stride": None, "baseline": [0.0], "noise_tunnel": None,
    }  # fmt: skip
    assert record["package"].keys() == {"captum"}
