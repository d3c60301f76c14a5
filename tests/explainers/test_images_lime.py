"""LimeImage equals the lime package; superpixels by size; Random and Custom on images."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
lime_image = pytest.importorskip("lime.lime_image")

from image_nets import photos, resnet  # noqa: E402
from sklearn.linear_model import Ridge  # noqa: E402

from stabgate.errors import ExplainerError, InputError  # noqa: E402
from stabgate.explainers import Captum, Custom, LimeImage, Random, Shap  # noqa: E402
from stabgate.explainers.images import as_image_explainer  # noqa: E402
from stabgate.explainers.segments import superpixels  # noqa: E402
from stabgate.image_models import Passes  # noqa: E402

IMAGES, TARGETS, SEEDS = photos(), torch.tensor([1, 3, 0]), [7, 8, 2**32 - 1]
QUARTERS = np.arange(4).reshape(2, 2).repeat(8, 0).repeat(8, 1)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def in_numpy(module):
    """The network as the package wants it: images (n, height, width, channels) to outputs."""

    def predict(images):
        with torch.no_grad():
            inputs = torch.tensor(np.asarray(images).transpose(0, 3, 1, 2), dtype=module.fc.weight.dtype)
            return module(inputs).double().numpy()

    return predict


def direct(module, image, seed, target, *, samples=60, **options):
    array = image.double().numpy().transpose(1, 2, 0)
    explainer = lime_image.LimeImageExplainer(random_state=seed, feature_selection=options.pop("selection", "none"))
    explanation = explainer.explain_instance(
        array, in_numpy(module), labels=(target,), top_labels=None, num_samples=samples, **options
    )
    weights = dict(explanation.local_exp[target])
    return np.vectorize(weights.get)(explanation.segments)


@pytest.mark.parametrize("hide", [None, 0.0, 0.4])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_equals_the_package(hide, distance):
    module = resnet().double()
    explainer = LimeImage(
        module, num_samples=60, segmentation=lambda _: QUARTERS, hide_color=hide, distance_metric=distance
    )
    maps = explainer.maps(IMAGES, targets=TARGETS, seeds=SEEDS)
    assert maps.shape == (3, 1, 16, 16)
    for i, seed in enumerate(SEEDS):
        expected = direct(
            module, IMAGES[i], seed, int(TARGETS[i]), segmentation_fn=lambda _: QUARTERS, hide_color=hide,
            distance_metric=distance, model_regressor=Ridge(alpha=1.0),
        )  # fmt: skip
        np.testing.assert_allclose(maps[i, 0], expected, rtol=0, atol=1e-6 * np.abs(expected).max() + 1e-8)
    assert explainer.passes == Passes(180, 0)
    assert explainer.describe()["settings"]["hide_color"] == hide


def test_equals_the_packages_own_segmentation_and_selection_on_a_large_image():
    """224 pixels: quickshift with the package's settings, found by the package itself."""
    torch.manual_seed(0)
    image = torch.nn.functional.interpolate(torch.rand(1, 3, 9, 9), (224, 224), mode="bicubic").clamp(0, 1)
    module = resnet().double()
    found = LimeImage(module, num_samples=30).maps(image, targets=torch.tensor([2]), seeds=[5])
    expected = direct(module, image[0], 5, 2, samples=30, selection="auto")
    assert len(np.unique(expected)) >= 5
    np.testing.assert_allclose(found[0, 0], expected, rtol=0, atol=1e-6 * np.abs(expected).max() + 1e-8)


@pytest.mark.parametrize("method", ["package", "captum"])
def test_a_pair_shares_segments_and_design(method):
    """The maps follow from the seed and the labels: with the original's labels, and with a warped set."""
    module = resnet()
    explainers = {"package": LimeImage(module, num_samples=40), "captum": Captum(module, method="lime").for_images()}
    explainer = explainers[method]
    labels = explainer.segment(IMAGES, SEEDS)
    assert labels.dtype == torch.int64
    assert all(one.unique().tolist() == list(range(int(one.max()) + 1)) for one in labels)
    own = explainer.maps(IMAGES, targets=TARGETS, seeds=SEEDS)
    same = explainer.maps(IMAGES, targets=TARGETS, seeds=SEEDS, segments=labels)
    torch.testing.assert_close(own, same, rtol=0, atol=0)
    counts = [int(one.max()) + 1 for one in labels]
    warped = torch.where(labels == 0, 1, labels)
    found = explainer.maps(IMAGES, targets=TARGETS, seeds=SEEDS, segments=warped, design=counts)
    assert found.shape[0] == 3
    assert not torch.equal(found, same)
    alone = explainer.maps(
        IMAGES[1:2], targets=TARGETS[1:2], seeds=SEEDS[1:2], segments=warped[1:2], design=counts[1:2]
    )
    torch.testing.assert_close(alone[0], found[1], rtol=0, atol=1e-6)


def test_the_design_keeps_a_segment_that_left():
    """By hand: the package's draws for four segments, of which one covers nothing."""
    module, labels = resnet(), np.where(QUARTERS == 3, 2, QUARTERS)
    explainer = LimeImage(module, num_samples=50, hide_color=0.0)
    found = explainer.maps(
        IMAGES[:1], targets=torch.tensor([1]), seeds=[5], segments=torch.tensor(labels)[None], design=[4]
    )
    draws = np.random.RandomState(5)
    draws.randint(0, 1000)  # for the segmentation
    shown = draws.randint(0, 2, 50 * 4).reshape(50, 4)
    shown[0] = 1
    copies = IMAGES[0] * torch.tensor(shown[:, labels])[:, None]
    with torch.no_grad():
        outputs = module(copies)[:, 1].double().numpy()
    cosine = 1 - shown @ np.ones(4) / (2.0 * np.sqrt(np.maximum(shown.sum(axis=1), 1e-300)))
    weights = np.sqrt(np.exp(-(cosine**2) / 0.25**2))
    expected = Ridge(alpha=1.0).fit(shown, outputs, sample_weight=weights).coef_[labels]
    np.testing.assert_allclose(found[0, 0], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("channels", [1, 4])
def test_grey_images_and_an_alpha_channel(channels):
    module = resnet(channels=channels)
    found = LimeImage(module, num_samples=20).explain(photos(2, channels), seed=0)
    assert found.shape == (2, 1, 16, 16)
    assert np.abs(found).max() > 0


def test_a_function_is_explained_by_lime():
    module = resnet()
    expected = LimeImage(module, num_samples=20).explain(IMAGES, seed=1)
    for function in (lambda x: module(x).detach(), lambda x: module(x).detach().numpy()):
        np.testing.assert_array_equal(LimeImage(function, num_samples=20).explain(IMAGES, seed=1), expected)


@pytest.mark.parametrize(("side", "least", "most"), [(16, 5, 80), (32, 8, 80), (64, 8, 80), (224, 8, 80)])
def test_segments_fit_the_size(side, least, most):
    """Smooth random images; LIME's own settings find one to three segments in 32 x 32."""
    torch.manual_seed(1)
    images = torch.nn.functional.interpolate(torch.rand(2, 3, 8, 8), (side, side), mode="bilinear")
    for labels in superpixels(images, "auto"):
        assert least <= len(labels.unique()) <= most


@pytest.mark.parametrize("side", [16, 32, 48, 64])
def test_noise_and_plain_images_have_segments_too(side):
    images = torch.cat([photos(1, side=side), torch.full((1, 3, side, side), 0.5)])
    assert all(len(labels.unique()) >= 8 for labels in superpixels(images, "auto"))


def test_segments_of_photos(shared):
    image_io = pytest.importorskip("skimage.io")
    files = sorted((shared / "data" / "images" / "cifar10").glob("*.png"))[:10]
    images = torch.stack([torch.tensor(image_io.imread(f)[..., :3] / 255.0).permute(2, 0, 1) for f in files])
    assert all(10 <= len(labels.unique()) <= 60 for labels in superpixels(images, "auto"))


def test_segmentations_that_are_none():
    for labels in (np.zeros((4, 4), int), np.zeros((16, 16))):
        with pytest.raises(InputError, match="expected integer labels"):
            LimeImage(resnet(), segmentation=lambda _, labels=labels: labels).explain(IMAGES, seed=0)
    for ask, message in (
        ({"num_samples": 1}, "num_samples=1"),
        ({"hide_color": 2.0}, "hide_color=2.0"),
        ({"segmentation": "watershed"}, "watershed"),
        ({"distance_metric": "cos"}, "did you mean 'cosine'"),
    ):
        with pytest.raises(InputError, match=message):
            LimeImage(resnet(), **ask)


def test_random_maps():
    images = as_image_explainer(Random())
    maps = images.maps(photos(2, side=64), targets=torch.zeros(2).long(), seeds=[1, 2])
    assert maps.shape == (2, 1, 64, 64)
    assert 0 <= float(maps.min()) < 0.01
    assert 0.99 < float(maps.max()) < 1
    assert abs(float(maps.mean()) - 0.5) < 0.02
    np.testing.assert_array_equal(Random().explain(photos(2, side=64), seed=[1, 2]), maps.double().numpy())
    assert images.passes == Passes(0, 0)
    assert not images.has_model
    with pytest.raises(InputError, match="random has no model"):
        _ = images.model
    assert as_image_explainer(Random(resnet())).model.predict(IMAGES).shape == (3, 4)
    assert Random().explain(np.zeros((2, 5)), seed=0).shape == (2, 5)


def test_functions_as_explainers():
    def noisy(X, seed, target):
        assert X.shape == (1, 3, 16, 16)
        return X[0, :1] * (target + 1) + torch.rand(1)

    explainer = Custom(noisy, model=resnet(), settings={"noise": 1})
    values = explainer.explain(IMAGES, seed=SEEDS, target=[0, 1, 2])
    for i, seed in enumerate(SEEDS):
        torch.manual_seed(seed)
        np.testing.assert_allclose(values[i], (IMAGES[i, :1] * (i + 1) + torch.rand(1)).numpy(), rtol=1e-6)
    assert explainer.for_images().describe()["settings"] == {"noise": 1}
    with pytest.raises(ExplainerError, match=r"returned shape \(16, 16\) for one image"):
        Custom(lambda X, seed: X[0, 0]).explain(IMAGES, seed=0)
    with pytest.raises(ExplainerError, match="NaN or infinity for 3 of 3"):
        Custom(lambda X, seed: X * float("inf")).explain(IMAGES, seed=0)
    with pytest.raises(ExplainerError, match="returned shape"):
        Custom(lambda X, seed: X[..., :5]).explain(IMAGES, seed=0)
    with pytest.raises(ExplainerError, match="KeyError"):
        Custom(lambda X, seed: {}["map"]).explain(IMAGES, seed=0)


def test_what_explains_no_images():
    pytest.importorskip("shap")
    for explainer, message in (
        (Shap(lambda rows: rows[:, 0], background=np.zeros((3, 2))), "Shap, which explains no images"),
        (LimeImage, "the class LimeImage"),
        (None, "NoneType"),
    ):
        with pytest.raises(InputError, match=message):
            as_image_explainer(explainer)
