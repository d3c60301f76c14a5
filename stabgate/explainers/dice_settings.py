"""What can be asked of DiCE: every parameter that changes a value, checked once and recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from stabgate.errors import InputError

Method: TypeAlias = Literal["random", "genetic", "kdtree"]
FEWEST = 10  # dice-ml computes a local importance from at least ten counterfactuals

# Values of dice-ml 0.12, written down so that a changed default of the package changes no measurement.
OPTIONS: dict[str, dict[str, Any]] = {
    "random": {"sample_size": 1000, "limit_steps_ls": 10_000},
    "genetic": {
        "initialization": "kdtree",
        "proximity_weight": 0.2,
        "sparsity_weight": 0.2,
        "diversity_weight": 5.0,
        "categorical_penalty": 0.1,
        "algorithm": "DiverseCF",
        "yloss_type": "hinge_loss",
        "diversity_loss_type": "dpp_style:inverse_dist",
        "maxiterations": 500,
        "thresh": 1e-2,
    },
    "kdtree": {"sparsity_weight": 1, "limit_steps_ls": 10_000},
}


@dataclass(frozen=True)
class DiceSettings:
    """The parameters of `Dice`, which documents them.

    Raises:
        InputError: a value or option that DiCE does not have.
    """

    method: Method
    total_cfs: int
    sparsity: Literal["binary", "linear"] | None
    sparsity_param: float
    desired_class: Any
    desired_range: tuple[float, ...] | None
    features_to_vary: str | tuple[str, ...]
    permitted_range: Mapping[str, Sequence[Any]]
    continuous: tuple[str, ...] | None
    stopping_threshold: float
    time_limit: float | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in OPTIONS:
            raise InputError(f"method={self.method!r} is none of DiCE's; choose 'random', 'genetic' or 'kdtree'")
        if "random_seed" in self.options:
            raise InputError(
                "random_seed: DiCE restarts its generator with it for every feature; the seed of each run "
                "and row is given by stabgate instead, leave it out"
            )
        for option in self.options:
            if option not in OPTIONS[self.method]:
                known = ", ".join(OPTIONS[self.method])
                raise InputError(f"{option}: not an option of DiCE's {self.method} method; it has {known}")
        if isinstance(self.total_cfs, bool) or not isinstance(self.total_cfs, int) or self.total_cfs < FEWEST:
            raise InputError(f"total_cfs={self.total_cfs!r}: an importance takes at least {FEWEST} counterfactuals")
        if self.sparsity not in ("binary", "linear", None):
            raise InputError(f"posthoc_sparsity_algorithm={self.sparsity!r}: choose 'binary', 'linear' or None")
        for name, share in (
            ("posthoc_sparsity_param", self.sparsity_param),
            ("stopping_threshold", self.stopping_threshold),
        ):
            if not 0 <= share <= 1:
                raise InputError(f"{name}={share} is not between 0 and 1")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"time_limit={self.time_limit}: seconds above 0, or None for no limit")
        if self.desired_range is not None and (
            len(self.desired_range) != 2 or not self.desired_range[0] <= self.desired_range[1]
        ):
            raise InputError(f"desired_range={self.desired_range}: two numbers in ascending order")
        if isinstance(self.features_to_vary, str) and self.features_to_vary != "all":
            raise InputError(f"features_to_vary={self.features_to_vary!r}: 'all' or a list of feature names")
        if not self.features_to_vary:
            raise InputError("features_to_vary is empty: no counterfactual can differ from its row")

    def check_names(self, features: Sequence[str]) -> None:
        """Every feature that is named exists.

        Raises:
            InputError: one does not.
        """
        for what, given in (
            ("features_to_vary", () if isinstance(self.features_to_vary, str) else self.features_to_vary),
            ("permitted_range", tuple(self.permitted_range)),
            ("continuous", self.continuous or ()),
        ):
            for name in given:
                if name not in features:
                    known = ", ".join(repr(f) for f in features[:8])
                    raise InputError(f"{what}: {name!r} is not a column of the background, which has {known}")

    @property
    def all_options(self) -> dict[str, Any]:
        """What the method takes beyond the common parameters, defaults included."""
        return OPTIONS[self.method] | dict(self.options)

    @property
    def starts_from_background(self) -> bool:
        """The search begins at background rows that are predicted as the desired class."""
        return self.method == "kdtree" or self.all_options.get("initialization") == "kdtree"

    def record(self) -> dict[str, Any]:
        """All of them, as plain JSON values."""
        record: dict[str, Any] = {
            "method": self.method,
            "total_cfs": self.total_cfs,
            "posthoc_sparsity_algorithm": self.sparsity,
            "posthoc_sparsity_param": self.sparsity_param,
            "features_to_vary": "all" if self.features_to_vary == "all" else list(self.features_to_vary),
            "permitted_range": {name: [_plain(v) for v in values] for name, values in self.permitted_range.items()},
            "continuous": None if self.continuous is None else list(self.continuous),
            "time_limit": self.time_limit,
        }
        if self.desired_range is None:
            record |= {
                "desired_class": _plain(self.desired_class),
                "stopping_threshold": self.stopping_threshold,
            }
        else:
            record["desired_range"] = list(self.desired_range)
        return record | self.all_options


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
