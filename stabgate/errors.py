"""What stabgate raises. Messages name the column, run, row, option or file, what was found and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabgate.verdict.verdicts import Verdict


class StabgateError(Exception):
    """Base of every error that stabgate raises on purpose."""


class InputError(StabgateError, ValueError):
    """Data or an option that cannot be used as it is."""


class ModelError(StabgateError, RuntimeError):
    """The model cannot be measured: it raises, or its predictions vary between identical calls."""


class ExplainerError(StabgateError, RuntimeError):
    """An explainer failed, or returned something that is not an attribution per feature."""


class BudgetError(StabgateError, RuntimeError):
    """A budget ended before there were as many runs as what follows needs."""


class MissingDependencyError(StabgateError, ImportError):
    """A package that an optional part needs is not installed; the message names the extra that brings it."""


class TrackingError(StabgateError, RuntimeError):
    """An MLflow store does not answer, refuses, or fails; the message names it and why."""


class InconclusiveWarning(UserWarning):
    """A gate could not tell whether its requirement is met, and was told to warn and not to fail."""


class StabilityError(StabgateError, AssertionError):
    """A requirement was not met or could not be measured.

    Attributes:
        verdict: the `Verdict` behind the message.
    """

    def __init__(self, message: str, verdict: Verdict) -> None:
        super().__init__(message)
        self.verdict = verdict

    def __reduce__(self) -> tuple[type[StabilityError], tuple[str, Verdict]]:
        return (type(self), (str(self), self.verdict))
