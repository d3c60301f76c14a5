"""What goes to MLflow, and how a dead server is survived.

    described    what of a session and its gates becomes parameters, metrics, tags and a data set: plain values
    outbox       a session waits in a folder until all of it has been sent
    send         one waiting session, or all of them, to a store; sending one twice changes nothing
    logging      at the end of a run: into the outbox, and out of it by a process of its own
    pictures     heat map, separability curve, the worst pairs of maps
    verdicts     tags on the model version that was tested
    registry     the record of a model version as a baseline
    versions     every measured version of a registered model, and their history

Sending happens in a process of its own: the user's active run, autologging, tracking URI and environment are not in it,
and a server that hangs can be given up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stabgate.tracking.logging import Logged, log_session
    from stabgate.tracking.registry import registry_baseline
    from stabgate.tracking.send import push
    from stabgate.tracking.versions import history, plot_history

_HOMES = {
    "Logged": "logging",
    "history": "versions",
    "log_session": "logging",
    "plot_history": "versions",
    "push": "send",
    "registry_baseline": "registry",
}
__all__ = ["Logged", "history", "log_session", "plot_history", "push", "registry_baseline"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"stabgate.tracking.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'stabgate.tracking' has no attribute {name!r}")
