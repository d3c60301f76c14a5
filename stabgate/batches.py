"""Work in batches that fit into memory and are quick: halved when memory runs out, measured on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from stabgate.errors import ExplainerError

Result = TypeVar("Result")

# Batch sizes that are tried. On a CPU small batches of large images are up to three times quicker than large
# ones (caches), large batches of small images up to three times quicker than small ones (overhead).
CANDIDATES = (1, 4, 16, 64)
# A larger batch must be quicker by this factor; a smaller one needs less memory and is a steadier choice.
WORTHWHILE = 0.9
LONGEST_TRIAL = 0.5  # seconds; a batch that would take longer is large enough for its overhead not to matter


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: torch's own type on every accelerator, or the CPU's
    allocator."""
    import torch

    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):  # the same type as torch.OutOfMemoryError
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in message or "can't allocate memory" in message)


class Batches:
    """Batch sizes of one network, learnt for each kind of work: never skips rows."""

    def __init__(self) -> None:
        self.sizes: dict[Any, int] = {}

    def size(self, kind: Any, choose: Callable[[], int]) -> int:
        """The batch size of a kind of work; `choose` is asked once."""
        if kind not in self.sizes:
            self.sizes[kind] = choose()
        return self.sizes[kind]

    def run(
        self,
        kind: Any,
        rows: int,
        work: Callable[[int, int], Result],
        choose: Callable[[], int],
        what: str,
    ) -> list[Result]:
        """Results of `work(start, end)` over all rows, in order.

        A batch that runs out of memory is halved and tried again, and later batches of that kind stay small.

        Args:
            kind: what the size depends on: the kind of work and the shape of an image.
            choose: the size to begin with, where none is known for `kind`.
            what: for the message.

        Raises:
            ExplainerError: one row alone does not fit.
        """
        self.size(kind, choose)
        results: list[Result] = []
        start = 0
        while start < rows:
            end = min(start + self.sizes[kind], rows)
            try:
                results.append(work(start, end))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                message = str(error)
            else:
                start = end
                continue
            # Only here is the exception gone, and with it the frames that hold the failed batch's tensors.
            if end - start == 1:
                raise ExplainerError(f"{what}: memory runs out on one image alone ({message})")
            self.sizes[kind] = (end - start) // 2
            _free()
        return results


def quickest(run: Callable[[int], None]) -> int:
    """The batch size with the shortest time per row, by running a few of them.

    Stops at the first size that is slower than the best one, or that would take longer than half a second.

    Args:
        run: does the work on a batch of the given size.
    """
    run(1)  # the first call of anything is slow
    best, best_time = 1, _timed(run, 1)
    for size in CANDIDATES:
        if size * best_time > LONGEST_TRIAL:
            break
        try:
            seconds = min(_timed(run, size) for _ in range(2)) / size
        except Exception as error:
            if is_out_of_memory(error):
                break
            raise
        if seconds > best_time and size > 1:
            break
        if seconds < WORTHWHILE * best_time:
            best, best_time = size, seconds
    _free()
    return best


def _timed(run: Callable[[int], None], size: int) -> float:
    started = time.perf_counter()
    run(size)
    return time.perf_counter() - started


def _free() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
