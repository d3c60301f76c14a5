"""Separability of attribution distributions and the stability of feature rankings: arrays in, arrays out.

Samples are (runs, instances, features) or (runs, features). From values to a verdict's numbers:
`attribution_values` -> `distance_matrix` -> `rank_features` -> `k_stability`, `certified_groups`,
`separability_curve`.

Source: "Measuring Explainer Stability via Attribution Separability" (Conti, Parafita, Brando), arXiv
    2608.02697.
"""

from stabgate.separability.density import Distribution, distributions
from stabgate.separability.distance import distance_matrix
from stabgate.separability.groups import (
    SeparabilityCurve,
    certification_rate,
    certified_groups,
    group_stability,
    heatmap,
    separability_curve,
)
from stabgate.separability.kstability import (
    check_rule,
    check_threshold,
    compare_k,
    k_from_separated,
    k_stability,
    separated,
)
from stabgate.separability.ranking import rank_features, tied_pairs
from stabgate.separability.values import (
    attribution_values,
    constant_features,
    noise_floor,
    ranking_means,
    repeated_features,
)

__all__ = [
    "Distribution",
    "SeparabilityCurve",
    "attribution_values",
    "certification_rate",
    "certified_groups",
    "check_rule",
    "check_threshold",
    "compare_k",
    "constant_features",
    "distance_matrix",
    "distributions",
    "group_stability",
    "heatmap",
    "k_from_separated",
    "k_stability",
    "noise_floor",
    "rank_features",
    "ranking_means",
    "repeated_features",
    "separability_curve",
    "separated",
    "tied_pairs",
]
