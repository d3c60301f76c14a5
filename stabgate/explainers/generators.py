"""Copies of package modules that draw from a generator of their own instead of NumPy's global one.

Seeding the global generator is unsafe beside other threads: their draws shift ours, and what they draw while
our seed is in place repeats itself. Packages reach the global generator as ``np.random``, through the name
``np`` in their modules. `private_copy` loads such a module a second time and gives that copy another
``np.random``; the package as others imported it stays as it is.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec
from types import ModuleType

import numpy as np

from stabgate.errors import ExplainerError, MissingDependencyError

_LOADING = threading.Lock()
_COPIES: dict[str, PrivateCopy] = {}


class Generator(np.random.RandomState):
    """Stands for ``numpy.random``: the same streams for the same seeds as the global functions."""

    default_rng = staticmethod(np.random.default_rng)
    RandomState = np.random.RandomState
    Generator = np.random.Generator


@dataclass(frozen=True)
class PrivateCopy:
    """A module whose ``np.random`` is `generator`. From seeding to the last draw one thread may use it."""

    module: ModuleType
    generator: Generator


def private_copy(name: str) -> PrivateCopy:
    """The copy of the module called `name`, loaded once per process; it is not in ``sys.modules``.

    Raises:
        MissingDependencyError: there is no such module.
        ExplainerError: it does not know NumPy as ``np``, so its draws cannot be led elsewhere.
    """
    with _LOADING:
        if name not in _COPIES:
            spec = find_spec(name)
            if spec is None or spec.loader is None:
                raise MissingDependencyError(f"there is no module {name}")
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            if vars(module).get("np") is not np:
                raise ExplainerError(
                    f"{name} does not import numpy as np: this version of the package draws its random "
                    "numbers in a way that stabgate does not know, so they could not be repeated"
                )
            numpy = ModuleType("numpy")
            vars(numpy).update(vars(np))
            generator = Generator()
            vars(numpy)["random"] = generator
            vars(module)["np"] = numpy
            _COPIES[name] = PrivateCopy(module, generator)
        return _COPIES[name]
