"""Torch modules behind the model's face: same numbers, same state afterwards, and said when it was
changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch")

from stabgate import networks  # noqa: E402
from stabgate.adapters import as_model  # noqa: E402
from stabgate.errors import ModelError  # noqa: E402
from stabgate.models import Model, Predictor  # noqa: E402
from stabgate.networks import evaluating, network_model  # noqa: E402
from stabgate.tables import Table  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def net(outputs=2, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.5),
        torch.nn.Linear(8, outputs),
    ).to(dtype)  # fmt: skip


ROWS = np.random.default_rng(0).normal(size=(7, 3))


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_outputs_are_those_of_the_module_in_evaluation_mode(outputs, dtype):
    module = net(outputs, dtype).eval()
    with torch.no_grad():
        expected = module(torch.tensor(ROWS, dtype=dtype)).double().numpy()
    found = as_model(module).predict(ROWS, 7)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)
    assert network_model(module).notes == ()


def test_one_dimension_of_outputs():
    class Flat(torch.nn.Module):
        def forward(self, x):
            return x.sum(dim=1)

    np.testing.assert_allclose(as_model(Flat()).predict(ROWS, 7)[:, 0], ROWS.sum(axis=1), rtol=1e-6)


def test_a_module_in_training_mode_comes_back_as_it_was_and_that_is_said():
    module = net()
    module.train()
    module[3].eval()  # a mixture, as in fine-tuning with frozen parts
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = as_model(module)
    first = model.predict(ROWS, 7)
    np.testing.assert_array_equal(first, model.predict(ROWS, 7))
    assert [part.training for part in module] == [True, True, True, False, True]
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert model.notes == ("measured in evaluation mode; the module was in training mode and put back into it",)
    module.eval()
    module[1].train()
    assert network_model(module).notes == (
        "measured in evaluation mode; of its parts, 1 were in training mode and put back into it",
    )


def test_modes_come_back_after_an_exception():
    module = net().train()
    with pytest.raises(ModelError, match="raised RuntimeError"):
        as_model(module).predict(np.zeros((2, 4)), 2)
    assert all(part.training for part in module.modules())
    with pytest.raises(KeyError), evaluating(module):
        raise KeyError
    assert all(part.training for part in module.modules())


def test_batch_normalisation_without_running_statistics_is_noted():
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3, track_running_stats=False)).eval()
    assert "depends on the rows beside it" in network_model(module).notes[0]


def test_batches_are_bounded(monkeypatch):
    seen = []

    class Count(torch.nn.Module):
        def forward(self, x):
            seen.append(len(x))
            return x[:, :1]

    monkeypatch.setattr(networks, "CELLS_PER_CALL", 9)
    np.testing.assert_allclose(as_model(Count()).predict(ROWS, 7)[:, 0], ROWS[:, 0], rtol=1e-6)
    assert seen == [3, 3, 1]


def test_a_tuple_of_outputs_says_what_to_do():
    class Pair(torch.nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(ModelError, match="returned a tuple of 2; wrap it"):
        as_model(Pair()).predict(ROWS, 7)


def test_frames_become_matrices():
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": pd.array([0.5, 1.5], dtype="Float64")})
    module = torch.nn.Linear(3, 1)
    table = Table.of(frame)
    found = Predictor(as_model(module), table)(table.encode(frame))
    with torch.no_grad():
        expected = module(torch.tensor([[1, 1, 0.5], [2, 0, 1.5]])).double().numpy()
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ModelError, match=r"column 'job' is .*, and a network takes numbers"):
        as_model(module).predict(frame.assign(job=["cook", "clerk"]), 2)


def test_gradients_are_neither_needed_nor_left_behind():
    module = net().eval()
    with torch.inference_mode():
        assert isinstance(as_model(module), Model)
        as_model(module).predict(ROWS, 7)
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.gpu
def test_a_module_on_an_accelerator():
    if not torch.cuda.is_available():
        pytest.skip("no accelerator here")
    module = net().eval()
    expected = as_model(module).predict(ROWS, 7)
    np.testing.assert_allclose(as_model(module.cuda()).predict(ROWS, 7), expected, atol=1e-5)
