"""Perturbations of images in [0, 1]: what an explanation should survive as long as the prediction does.

    >>> from stabgate.perturbations import Rotation, resolve, sweep
    >>> [p.label for p in resolve("published")]
    ['rotation 15°', 'translation 20 px', 'brightness x1.5', 'noise σ 0.15', 'jpeg q 40']
    >>> [p.label for p in sweep("rotation", (5, 10))]
    ['rotation 5°', 'rotation 10°']

Source: [F] "Feature Attribution Stability Suite", arXiv 2604.02532. Importing this room leaves torch alone.
"""

from stabgate.perturbations.base import FAMILIES, Family, Perturbation
from stabgate.perturbations.checks import validate_images
from stabgate.perturbations.codec import Jpeg
from stabgate.perturbations.custom import CustomPerturbation
from stabgate.perturbations.images import Brightness, GaussianNoise, Rotation, Translation
from stabgate.perturbations.sets import KINDS, MILD, PUBLISHED, SETS, resolve, sweep

__all__ = [
    "FAMILIES",
    "KINDS",
    "MILD",
    "PUBLISHED",
    "SETS",
    "Brightness",
    "CustomPerturbation",
    "Family",
    "GaussianNoise",
    "Jpeg",
    "Perturbation",
    "Rotation",
    "Translation",
    "resolve",
    "sweep",
    "validate_images",
]
