"""A configuration is checked key by key before anything is measured; messages name file, key and value."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stabgate as sg
from stabgate.pipeline.config import find_config, read_config
from stabgate.pipeline.inputs import importing_from, load_data, load_model, load_object, make_explainer

GOOD = """
[tool.stabgate]
runs = 20
data = "rows.csv"
explainer = "lime"
model = "credit:model"
[tool.stabgate.gates."credit/lime"]
k = 3
share = 0.9
seed = 4
[tool.stabgate.gates."credit/shap"]
k = 2
explainer = { name = "shap", method = "kernel" }
max_drop = 0.1
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def go(text: str, name: str = "stabgate.toml") -> Path:
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
        return Path(name)

    return go


def test_a_gates_table_goes_before_flags_and_flags_before_the_top_table(write):
    config = read_config(write(GOOD), {"seed": "9", "threshold": "0.8", "model": "other:model"})
    lime, shap = config.gates
    assert (lime.name, lime.given["k"], lime.given["model"], lime.settings["runs"]) == (
        "credit/lime",
        3,
        "other:model",
        20,
    )
    assert (lime.settings["seed"], shap.settings["seed"], shap.settings["threshold"]) == (4, 9, 0.8)
    assert lime.kind == shap.kind == "k-stability"
    assert shap.settings["inconclusive"] == "fail"
    assert read_config(write(GOOD), {"seed": "fresh"}).gates[1].settings["inconclusive"] == "warn"


def test_gates_may_be_a_list_or_the_top_table_itself_or_flags_alone(write):
    listed = read_config(
        write('[tool.stabgate]\ndata="d.csv"\n[[tool.stabgate.gates]]\nname="a"\nexplainer="lime"\nk=2\n'), {}
    )
    assert [gate.name for gate in listed.gates] == ["a"]
    alone = read_config(write('[tool.stabgate]\ndata="d.csv"\nexplainer="lime"\nscore=0.5\n'), {})
    assert [(gate.name, gate.kind) for gate in alone.gates] == [("", "FASS")]
    flags = read_config(None, {"data": "d.csv", "explainer": "lime", "k": 2, "name": "x"})
    assert [(gate.name, gate.where) for gate in flags.gates] == [("x", "")]


def test_flags_reach_a_gate_or_are_refused(write):
    config = read_config(write(GOOD), {"name": "mine", "k": 2})
    assert [(gate.name, gate.given["k"], gate.given["model"]) for gate in config.gates] == [("mine", 2, "credit:model")]
    with pytest.raises(sg.InputError, match="has a gate of that name; run it with: stabgate run credit/lime"):
        read_config(write(GOOD), {"name": "credit/lime"})
    with pytest.raises(sg.InputError, match="-k reaches no gate: each has its own k in its table"):
        read_config(write(GOOD), {"k": 2})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("runs = 20", "rums = 20"), "stabgate.toml: tool.stabgate: unknown key 'rums'; did you mean 'runs'?"),
        (
            ("share = 0.9", "shere = 0.9"),
            "stabgate.toml: gates.\"credit/lime\": unknown key 'shere'; did you mean 'share'?",
        ),
        (("k = 3", 'k = "three"'), "gates.\"credit/lime\": k = 'three' (a text): it must be a whole number"),
        (("k = 3", "k = 3.5"), 'gates."credit/lime": k = 3.5 (a number): it must be a whole number'),
        (("k = 3", "k = true"), 'gates."credit/lime": k = True (true or false): it must be a whole number'),
        (("runs = 20", "runs = 1"), 'stabgate.toml: gates."credit/lime": runs=1: it must be an integer of at least 2'),
        (("runs = 20", 'runs = "many"'), "runs='many': it must be an integer of at least 2"),
        (('data = "rows.csv"', ""), 'stabgate.toml: gates."credit/lime": data is missing: CSV, Parquet or npz file'),
        (("k = 3\nshare = 0.9", ""), 'gates."credit/lime": nothing is required: give k'),
        (("k = 3", "k = 3\nscore = 0.5"), "is a key of k-stability and score one of FASS"),
        (('name = "shap", ', ""), "explainer has no name"),
        (("max_drop = 0.1", 'baseline = "x"'), "baseline without max_drop"),
        (("[tool.stabgate]", "[tool.stabgate"), "cannot be read as TOML"),
        (("[tool.", "["), "the table is called [tool.stabgate], found [stabgate]"),
        (
            (
                '[tool.stabgate.gates."credit/lime"]\n',
                '[tool.stabgate.gates]\na = 3\n[tool.stabgate.gates."credit/lime"]\n',
            ),
            'gates."a" must be a table, found 3 (a whole number)',
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_file_key_and_value(write, change, message):
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(sg.InputError, match=re.escape(message)):
        read_config(write(text), {})


def test_where_a_configuration_is_looked_for(write):
    assert find_config(None) is None
    write("[project]\nname = 'x'\n", "pyproject.toml")
    assert find_config(None) is None
    write(GOOD, "pyproject.toml")
    assert find_config(None) == Path("pyproject.toml")
    write(GOOD)
    assert find_config(None) == Path("stabgate.toml")
    with pytest.raises(sg.InputError, match=r"--config=none\.toml: there is no such file"):
        find_config("none.toml")


MODULE = """
import numpy as np
class Model:
    classes_ = [0, 1]
    def predict_proba(self, X): return np.zeros((len(X), 2))
ready = Model()
def make(): return Model()
def make_with(kind="x"): return Model()
def predict(rows): return np.zeros(len(rows))
def broken(): raise ValueError("no licence")
class Space: inner = ready
"""


def test_objects_are_taken_and_factories_called(write, tmp_path):
    write(MODULE, "stabgate_test_models.py")
    with importing_from(tmp_path):

        def load(name: str):
            return load_model(f"stabgate_test_models:{name}", folder=tmp_path, where="gate x: ")

        kinds = [type(load(name)).__name__ for name in ("ready", "make", "make_with", "Model", "Space.inner")]
        assert kinds == ["Model"] * 5
        assert load("predict").__name__ == "predict"  # it takes rows: it is the model
        for name, message in (
            ("redy", "has no 'redy'; did you mean 'ready'?"),
            ("broken", "it raised ValueError: no licence"),
        ):
            with pytest.raises(sg.InputError, match=re.escape(message)):
                load(name)
    with pytest.raises(sg.InputError, match="the module 'stabgate_no_such' cannot be imported"):
        load_object("stabgate_no_such:model", where="model")
    with pytest.raises(sg.InputError, match="is a file of pickles; accepted are module:object"):
        load_model("model.pkl", folder=tmp_path, where="")
    assert load_model("models:/credit@champion", folder=tmp_path, where="") == "models:/credit@champion"


def test_tables_come_from_csv_parquet_and_npz(write, tmp_path):
    frame = pd.DataFrame({"id": ["a", "b"], "age": [1.5, 2.5], "city": ["x", "y"], "label": [0, 1]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet", index=False)
    np.savez(tmp_path / "d.npz", X=np.ones((3, 2)), y=np.zeros(3))
    np.savez(tmp_path / "o.npz", X=np.array([{}, 1], dtype=object))
    (tmp_path / "d.pkl").write_bytes(b"")

    def load(**given):
        return load_data(given, "data", folder=tmp_path, where="gate x: ")[0]

    for name in ("d.csv", "d.parquet"):
        found = load(data=name, drop="label", index="id")
        assert list(found.columns) == ["age", "city"]
        assert list(found.index) == ["a", "b"]
        assert list(load(data=name, drop=["label", "id"]).columns) == ["age", "city"]
    assert load(data="d.npz").shape == (3, 2)
    assert load(data="d.npz", array="y").shape == (3,)
    for given, message in (
        ({"data": "d.csv", "drop": "labl"}, "drop names the column 'labl', which is not in it; did you mean 'label'?"),
        ({"data": "d.csv", "index": "key"}, "index names the column 'key'"),
        ({"data": "d.npz", "array": "Z"}, "has no array 'Z' (there: X, y)"),
        ({"data": "o.npz"}, "arrays of objects are pickles"),
        ({"data": "none.csv"}, "gate x: data = 'none.csv': there is no such file or folder"),
        ({"data": "d.pkl"}, "pickles run code when they are read"),
    ):
        with pytest.raises(sg.InputError, match=re.escape(message)):
            load(**given)


def test_images_come_from_a_folder(tmp_path):
    from PIL import Image

    (tmp_path / "p" / "cats").mkdir(parents=True)
    Image.fromarray(np.full((4, 4, 3), 255, np.uint8)).save(tmp_path / "p" / "b.png")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "p" / "cats" / "a.png")
    (tmp_path / "p" / "labels.csv").write_text("x", encoding="utf-8")
    images, names = load_data({"data": "p"}, "data", folder=tmp_path, where="")
    assert names == ["b.png", "cats/a.png"]
    assert images.shape == (2, 3, 4, 4)
    assert images[0].min() == 1.0
    assert images[1].max() == 0.0
    Image.fromarray(np.zeros((6, 4, 3), np.uint8)).save(tmp_path / "p" / "z.png")
    with pytest.raises(sg.InputError, match=r"z.png has 4 x 6 pixels, b.png has 4 x 4; say size"):
        load_data({"data": "p"}, "data", folder=tmp_path, where="")
    assert load_data({"data": "p", "size": 8}, "data", folder=tmp_path, where="")[0].shape == (3, 3, 8, 8)
    (tmp_path / "empty").mkdir()
    with pytest.raises(sg.InputError, match="there is no image in it"):
        load_data({"data": "empty"}, "data", folder=tmp_path, where="")


def test_explainers_go_by_name_and_settings_by_theirs(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 3))

    def model(rows):
        return rows.sum(axis=1)

    lime = make_explainer({"explainer": {"name": "lime", "num_samples": 77}}, model, rows, where="")
    assert lime.describe()["settings"]["num_samples"] == 77
    for explainer, message in (
        ("lme", "explainer = 'lme': unknown; did you mean 'lime'?"),
        ({"name": "lime", "num_sample": 5}, "lime has no setting 'num_sample'; did you mean 'num_samples'?"),
    ):
        with pytest.raises(sg.InputError, match=re.escape(message)):
            make_explainer({"explainer": explainer}, model, rows, where="gate x: ")
    with pytest.raises(sg.InputError, match="model is missing"):
        make_explainer({"explainer": "shap"}, None, rows, where="")
