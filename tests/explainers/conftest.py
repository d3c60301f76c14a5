from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def one_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quickest batch is measured anew in each process; sums over other batches differ in the last bits."""
    monkeypatch.setattr("stabgate.image_models.quickest", lambda run: 8)
