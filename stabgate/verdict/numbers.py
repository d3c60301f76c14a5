"""Numbers as text that never contradict a verdict: what is shown stands on the same side as what was compared."""

from __future__ import annotations

MOST_DIGITS = 16


def exact(value: float) -> str:
    """The shortest text that reads back as this number: 0.9, 1, 2e-05."""
    text = repr(float(value))
    return text.removesuffix(".0")


def percent(share: float) -> str:
    """A measured share, to three digits after the point at most: 90 %, 66.7 %, 99.95 %."""
    for digits in (0, 1, 2, 3):
        text = f"{100 * share:.{digits}f}"
        if abs(float(text) - 100 * share) < 1e-9 or digits == 3:
            break
    return f"{text} %"


def required_percent(share: float) -> str:
    """A required share, with every digit that it was given with: 90 %, 90.00001 %."""
    return f"{_hundredfold(share)} %"


def beside(
    value: float | None, threshold: float, *, digits: int = 3, holds: bool | None = None, strict: bool = False
) -> str:
    """A number with as many digits as it takes to stand on its own side of the threshold; "-" for None.

    Args:
        threshold: shown as `exact` shows it.
        digits: after the point, at least.
        holds: whether it was found to reach the threshold, where that was decided within a tolerance; it is shown as
            the threshold itself where the tolerance decided.
        strict: to reach is to be above, and not also to be equal: a drop against the drop that is allowed.
    """
    if value is None:
        return "-"

    def reaches(number: float) -> bool:
        return number > threshold if strict else number >= threshold

    holds = reaches(value) if holds is None else holds
    for places in range(digits, MOST_DIGITS):
        text = f"{value:.{places}f}"
        if reaches(float(text)) == holds:
            return text
    return exact(value) if reaches(value) == holds else exact(threshold)


def percent_beside(share: float, threshold: float, *, holds: bool | None = None) -> str:
    """A measured share on its own side of a required one, which is shown as `required_percent` shows it."""
    from decimal import Decimal

    holds = share >= threshold if holds is None else holds
    least, whole = _hundredfold(threshold), _hundredfold(share)
    closer = (f"{100 * share:.{places}f}" for places in range(4, MOST_DIGITS))
    for text in (percent(share).removesuffix(" %"), *closer, whole):
        if (Decimal(text) >= Decimal(least)) == holds:
            return f"{text} %"
    return f"{least} %"  # within the tolerance with which it was decided


def interval_beside(interval: tuple[float, float], threshold: float, *, as_percent: bool = False) -> str:
    """An interval whose ends stand on their own sides of the threshold: 0.612 to 0.703, or 61.2 % to 70.3 %."""
    if not as_percent:
        return " to ".join(beside(end, threshold) for end in interval)
    rounded = (round(end, 3) for end in interval)
    return " to ".join(
        percent(near) if (near >= threshold) == (end >= threshold) else percent_beside(end, threshold)
        for near, end in zip(rounded, interval, strict=True)
    )


def _hundredfold(share: float) -> str:
    """100 times a share as text, moved by the decimal point and so without an error of its own."""
    from decimal import Decimal

    text = format(Decimal(repr(float(share))).scaleb(2), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
