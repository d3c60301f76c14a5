"""Torch modules as models: evaluated in evaluation mode, without gradients, and left as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stabgate.errors import InputError
from stabgate.models import Model

if TYPE_CHECKING:
    import torch

# Numbers in one call of a network: 8 MB of input in single precision, 13 images of 3 x 224 x 224.
CELLS_PER_CALL = 2**21


def network_model(module: torch.nn.Module) -> Model:
    """A `Model` for a torch module that takes one float tensor.

    The input becomes a tensor of the dtype and on the device of the module's parameters. The module runs in
    evaluation mode under ``no_grad``, in batches of a bounded size; afterwards each submodule is in the mode
    it was in, and no buffer has changed. Outputs ``(rows,)`` or ``(rows, outputs)`` come back as float64.

    The model's `notes` say when the module was in training mode, and when its outputs depend on the batch.
    """
    import torch

    notes = []
    training = [name or type(module).__name__ for name, part in module.named_modules() if part.training]
    if training:
        which = "the module was" if module.training else f"of its parts, {_listing(training)} were"
        notes.append(f"measured in evaluation mode; {which} in training mode and put back into it")
    adrift = [
        name or type(module).__name__
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is None
    ]
    if adrift:
        notes.append(
            f"{_listing(adrift)} keep no running statistics, so the output of a row depends on the rows beside it"
        )
    return Model(NetworkCall(module), type(module).__name__, "unknown", None, module, tuple(notes))


@dataclass(frozen=True)
class NetworkCall:
    """Calls a module with the user's kind of rows; outputs float64."""

    module: Any

    def __call__(self, data: Any) -> Any:
        import torch

        matrix = as_matrix(data)
        rows = max(1, CELLS_PER_CALL // max(1, matrix[:1].size))
        outputs = []
        with evaluating(self.module), torch.no_grad():
            for start in range(0, len(matrix), rows):
                output = self.module(as_tensor(self.module, matrix[start : start + rows]))
                if not isinstance(output, torch.Tensor):
                    return output  # a tuple or a dict: `Model.predict` says what to do
                outputs.append(output.double().cpu().numpy())
        return np.concatenate(outputs)


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode within the block; then every submodule is in its own mode again, error or not."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def as_tensor(module: torch.nn.Module, values: NDArray[Any]) -> torch.Tensor:
    """`values` with the dtype and on the device of the module's parameters."""
    import torch

    dtype, device = torch.get_default_dtype(), torch.device("cpu")
    for own in (*module.parameters(), *module.buffers()):
        if own.is_floating_point():
            dtype, device = own.dtype, own.device
            break
    # A copy in rows: read-only arrays make torch warn, and the last bits of a product depend on the layout.
    return torch.tensor(np.array(values, dtype=np.float64, order="C"), dtype=dtype, device=device)


def as_matrix(data: Any) -> NDArray[np.float64]:
    """Rows as a float array: numbers and booleans as they are, missing values as NaN.

    Raises:
        InputError: a column that holds something else.
    """
    if hasattr(data, "iloc"):
        try:
            matrix: NDArray[np.float64] = data.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            for label, dtype in zip(data.columns, data.dtypes, strict=True):
                if dtype.kind not in "biuf":
                    raise InputError(
                        f"column {label!r} is {dtype}, and a network takes numbers: encode it before, or "
                        "wrap the network and its encoding into one function"
                    ) from None
            raise
        return matrix
    return np.asarray(data.toarray() if hasattr(data, "toarray") else data, dtype=np.float64)


def _listing(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
