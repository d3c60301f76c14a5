"""FASS: how alike a model's explanations stay under perturbations that keep its prediction [F].

    pairs        which pairs are attempted, and what became of each
    invariance   when a prediction counts as kept
    methods      explainers behind one face, failures found image by image
    references   floor and re-seed: what a score means
    measuring    `measure_fass`
    aggregates   means with intervals clustered by image
    result       `Fass`
    examples     maps of the worst pairs, to look at
    milder       which severity would have kept enough predictions

Source: [F] "Feature Attribution Stability Suite", arXiv 2604.02532. Importing this room leaves torch alone.
"""

from stabgate.measure.fass.aggregates import Summary
from stabgate.measure.fass.examples import Example
from stabgate.measure.fass.measuring import measure_fass
from stabgate.measure.fass.pairs import CHANGED, ERROR, NO_SIGNAL, RETAINED, Pair
from stabgate.measure.fass.references import Reference
from stabgate.measure.fass.result import Fass, FassCost

__all__ = [
    "CHANGED",
    "ERROR",
    "NO_SIGNAL",
    "RETAINED",
    "Example",
    "Fass",
    "FassCost",
    "Pair",
    "Reference",
    "Summary",
    "measure_fass",
]
