"""Rank correlation and top-k overlap of many pairs at once, from one sort per map."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def ordinal_ranks(values: torch.Tensor) -> torch.Tensor:
    """(n, m) -> (n, m) float64 ranks 1..m; equal values are ranked in the order of their places.

    The same as scipy.stats.rankdata(method="ordinal") on the flattened map.
    """
    import torch

    order = torch.sort(values, dim=1, stable=True).indices
    places = torch.arange(1, values.shape[1] + 1, dtype=torch.float64, device=values.device)
    return torch.empty_like(values).scatter_(1, order, places.expand_as(values))


def ordinal_spearman(ranks_a: torch.Tensor, ranks_b: torch.Tensor) -> torch.Tensor:
    """(n, m) ranks without ties -> (n,) rho = 1 - 6 sum d^2 / (m (m^2 - 1)), m >= 2."""
    m = float(ranks_a.shape[1])
    distance = ranks_a - ranks_b
    return 1.0 - 6.0 * (distance * distance).sum(dim=1) / (m * (m * m - 1.0))


def top_jaccard(ranks_a: torch.Tensor, ranks_b: torch.Tensor, k: int) -> torch.Tensor:
    """(n, m) ordinal ranks -> (n,) overlap of the k highest-ranked elements, |A and B| / |A or B|."""
    cut = ranks_a.shape[1] - k
    shared = ((ranks_a > cut) & (ranks_b > cut)).sum(dim=1).double()
    return shared / (2.0 * k - shared)


def average_ranks(values: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Average ranks of the valid entries, and the sorted values.

    Args:
        values: (n, m) finite numbers.
        valid: (n, m) bool; the other entries take no part.

    Returns:
        (n, m) float64 ranks from 1, arbitrary where not valid; and (n, m) the valid values in ascending
        order, followed by infinities.
    """
    import torch

    n, m = values.shape
    ascending, order = torch.sort(values.masked_fill(~valid, torch.inf), dim=1)
    differs = ascending[:, 1:] != ascending[:, :-1]
    edge = torch.ones((n, 1), dtype=torch.bool, device=values.device)
    places = torch.arange(m, device=values.device).expand(n, m)
    # Every member of a group of ties gets the middle of the group: the mean of its first and last place.
    first = places.masked_fill(~torch.cat([edge, differs], dim=1), 0).cummax(dim=1).values
    last = places.masked_fill(~torch.cat([differs, edge], dim=1), m - 1).flip(1).cummin(dim=1).values.flip(1)
    middle = (first + last).double() / 2.0 + 1.0
    return torch.empty_like(middle).scatter_(1, order, middle), ascending


def masked_spearman(ranks_a: torch.Tensor, ranks_b: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """(n, m) average ranks -> (n,) rho over the valid entries; NaN where a side is constant."""
    middle = (valid.sum(dim=1, keepdim=True).double() + 1.0) / 2.0
    a = (ranks_a - middle).masked_fill(~valid, 0.0)
    b = (ranks_b - middle).masked_fill(~valid, 0.0)
    rho = (a * b).sum(dim=1) / ((a * a).sum(dim=1) * (b * b).sum(dim=1)).sqrt()
    return rho.clamp(-1.0, 1.0)


def top_membership(values: torch.Tensor, ascending: torch.Tensor, valid: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """How far each entry belongs to the k largest: 1 above the cut, 0 below, an equal share at the cut.

    Args:
        values: (n, m).
        ascending: (n, m) from `average_ranks`.
        valid: (n, m) bool.
        k: (n,) int64, from 1 to the number of valid entries.

    Returns:
        (n, m) float64 memberships that sum to k.
    """
    cut = ascending.gather(1, (valid.sum(dim=1) - k).clamp(min=0).unsqueeze(1))
    above = valid & (values > cut)
    tied = valid & (values == cut)
    share = (k - above.sum(dim=1)).double() / tied.sum(dim=1).clamp(min=1)
    return above.double() + tied.double() * share.unsqueeze(1)


def membership_overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(n, m) memberships -> (n,) sum of the smaller over sum of the larger: Jaccard for sets with ties."""
    import torch

    return torch.minimum(a, b).sum(dim=1) / torch.maximum(a, b).sum(dim=1)
