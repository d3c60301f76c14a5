"""A hash of a model that is the same after saving and loading, or a reason why there is none.

The hash walks what pickling would store: types by name, arrays by content. It follows no function of the user's own,
because its code could change without the name changing: such a model has no fingerprint unless the user gives one.
"""

from __future__ import annotations

import copy
import copyreg
import hashlib
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

DEPTH = 200  # nested deeper than this, an object is not a model


class NoFingerprintError(Exception):
    """The object cannot be told from another one by its content; the message says why."""


def fingerprint(model: Any) -> str:
    """SHA-256 of what `model` holds, in hexadecimal.

    Raises:
        NoFingerprintError: it refers to code outside installed packages, or to something that cannot be pickled.
    """
    digest = hashlib.sha256()
    _Walk(digest).add(model)
    return digest.hexdigest()


def digest_of(*parts: Any) -> str:
    """SHA-256 of plain values and arrays."""
    digest = hashlib.sha256()
    walk = _Walk(digest)
    for part in parts:
        walk.add(part)
    return digest.hexdigest()


class _Walk:
    def __init__(self, digest: Any) -> None:
        self._digest = digest
        self._path: list[int] = []

    def add(self, value: Any) -> None:
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            self._put(type(value).__name__, repr(value))
        elif isinstance(value, (bytes, bytearray)):
            self._put("bytes", bytes(value))
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, np.dtype):
            self._put("dtype", str(value))
        elif isinstance(value, np.generic):
            self._array(np.asarray(value))
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            self._put("code", _code_name(value))
        elif isinstance(value, types.ModuleType):
            self._put("module", value.__name__)
        else:
            self._nested(value)

    def _nested(self, value: Any) -> None:
        if id(value) in self._path:
            self._put("cycle", str(self._path[::-1].index(id(value))))
            return
        if len(self._path) > DEPTH:
            raise NoFingerprintError(f"{type(value).__name__} is nested too deeply")
        self._path.append(id(value))
        try:
            if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
                self._put(type(value).__name__, str(len(value)))
                for part in value:
                    self.add(part)
            elif type(value) in (set, frozenset):
                self._put(type(value).__name__, "".join(sorted(digest_of(part) for part in value)))
            elif type(value) is dict:
                self._mapping(value)
            elif hasattr(value, "detach") and hasattr(value, "cpu"):
                self._array(value.detach().cpu().numpy())
            else:
                self._object(value)
        finally:
            self._path.pop()

    def _object(self, value: Any) -> None:
        _code_name(type(value))
        if type(value).__module__.startswith("catboost."):
            value = copy.deepcopy(value)  # a model that was loaded is written in other bytes than one just trained
        try:
            registered = copyreg.dispatch_table.get(type(value))
            reduced = registered(value) if registered is not None else value.__reduce_ex__(4)
        except Exception as error:
            raise NoFingerprintError(f"{type(value).__name__} cannot be pickled ({error})") from error
        if isinstance(reduced, str):
            self._put("global", f"{type(value).__module__}.{reduced}")
            return
        constructor, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        self._put("object", _code_name(constructor))
        self.add(tuple(arguments))
        self.add(state)
        self.add(None if items is None else list(items))
        self.add(None if pairs is None else dict(pairs))

    def _mapping(self, value: Mapping[Any, Any]) -> None:
        self._put("dict", str(len(value)))
        for key, part in value.items():
            self.add(key)
            self.add(part)

    def _array(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.names is not None:
            # Field by field: what stands in the padding between fields is not part of the value.
            self._put("record", f"{array.dtype.names} {array.shape}")
            for name in array.dtype.names:
                self._array(array[name])
            return
        self._put("array", f"{array.dtype.str} {array.shape}")
        if array.dtype == object:
            for part in array.ravel().tolist():
                self.add(part)
        else:
            self._put("data", np.ascontiguousarray(array).tobytes())

    def _put(self, kind: str, content: str | bytes) -> None:
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self._digest.update(f"{kind}:{len(raw)}:".encode())
        self._digest.update(raw)


def _code_name(code: Any) -> str:
    module = getattr(code, "__module__", None) or getattr(getattr(code, "__self__", None), "__module__", "") or ""
    name = getattr(code, "__qualname__", type(code).__name__)
    if not _installed(module.partition(".")[0]):
        raise NoFingerprintError(
            f"it uses {name} of {module or 'unknown code'}, whose code may change under the same name"
        )
    if "<lambda>" in name or "<locals>" in name:
        raise NoFingerprintError(f"it uses {name} of {module}, which has no name to be found by")
    return f"{module}.{name}"


@lru_cache
def _installed(top: str) -> bool:
    """Whether a top-level module belongs to Python or to an installed package."""
    if not top or top in sys.builtin_module_names or top in sys.stdlib_module_names:
        return bool(top) and top != "__main__"
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    origins = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    return any(origin and folders & set(Path(origin).resolve().parents) for origin in origins)
