"""A configuration is checked key by key before anything is measured; messages name file, key and value."""

from __future__ import annotations

import re
import textwrap
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stabgate as sg
from stabgate.pipeline.config import find_config, read_config
from stabgate.pipeline.fitting import as_ids, check_columns
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
        (("runs = 20", "runs = 1"), "stabgate.toml: tool.stabgate: runs=1: it must be an integer of at least 2"),
        (("seed = 4", "seed = -4"), 'stabgate.toml: gates."credit/lime": seed=-4: it must be an integer of at least 0'),
        (("runs = 20", 'runs = "many"'), "runs='many': it must be an integer of at least 2"),
        (('data = "rows.csv"', ""), 'stabgate.toml: gates."credit/lime": data is missing: CSV, Parquet or npz file'),
        (("k = 3\nshare = 0.9", ""), 'gates."credit/lime": nothing is required: give k'),
        (("k = 3", "k = 3\nscore = 0.5"), "is a key of k-stability and score one of FASS"),
        (('name = "shap", ', ""), "explainer has no name"),
        (("max_drop = 0.1", 'baseline = "x"'), "baseline without max_drop"),
        (("[tool.stabgate]", "[tool.stabgate"), "cannot be read as TOML"),
        (("[tool.", "["), "the table is called [tool.stabgate], found [stabgate]"),
        (("[tool.stabgate]", "runs = 4\n[tool.stabgate]"), "the key 'runs' stands outside [tool.stabgate]"),
        (("[tool.stabgate]", "[tool]\nruns = 4\n[tool.stabgate]"), "the key 'runs' stands outside [tool.stabgate]"),
        (
            ("[tool.stabgate]", "rums = 4\n[tool.stabgate]"),
            "stabgate.toml: unknown key 'rums'; did you mean 'runs', below [tool.stabgate]?",
        ),
        (
            ("[tool.stabgate]\n", "[tool.stabgat]\n"),
            "stabgate.toml: unknown table [tool.stabgat]; did you mean [tool.stabgate]?",
        ),
        (("[tool.stabgate]\n", "[tools.stabgate]\n"), "unknown table [tools]; did you mean [tool.stabgate]?"),
        (
            ('[tool.stabgate.gates."credit/lime"]', '[tool.gates."credit/lime"]'),
            'unknown table [tool.gates]; did you mean [tool.stabgate.gates."name"]?',
        ),
        (("[tool.stabgate]", "[[gate]]\n[tool.stabgate]"), "unknown table [gate]; did you mean [tool.stabgate.gates"),
        (("[tool.stabgate]", "[tool.ruff]\n[tool.stabgate]"), "unknown table [tool.ruff]; [tool.stabgate] is what is"),
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


def test_tables_of_others_stay_theirs_in_pyproject_but_not_slips_of_stabgate(write):
    others = "[project]\nname = 'x'\n[tool.ruff]\nruns = 3\n[tool.setuptools]\n"
    assert len(read_config(write(GOOD + others, "pyproject.toml"), {}).gates) == 2
    for slip in ("stabgat", "stab-gate", "Stabgate", "stabgates"):
        for text in (others, GOOD):
            write(text + f"[tool.{slip}]\nruns = 3\n", "pyproject.toml")
            with pytest.raises(sg.InputError, match=rf"pyproject.toml: unknown table \[tool.{slip}\]; did you mean"):
                find_config(None)


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
    (tmp_path / "garbage.npz").write_bytes(b"no archive at all")
    whole = bytearray((tmp_path / "d.npz").read_bytes())
    whole[150:200] = bytes(50)
    (tmp_path / "damaged.npz").write_bytes(whole)
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as file:
        file.writestr("notes", "hello")

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
        ({"data": "d.npz", "array": "Z"}, "gate x: data = 'd.npz': has no array 'Z' (there: X, y); say which: array"),
        ({"data": "o.npz"}, "arrays of objects are pickles"),
        ({"data": "garbage.npz"}, "garbage.npz': is no npz file"),
        ({"data": "damaged.npz"}, "damaged.npz': an array of it cannot be read: it is damaged"),
        ({"data": "text.npz"}, "text.npz': 'notes' is no array"),
        ({"data": "none.csv"}, "gate x: data = 'none.csv': there is no such file or folder"),
        ({"data": "d.pkl"}, "pickles run code when they are read"),
    ):
        with pytest.raises(sg.InputError, match=re.escape(message)) as caught:
            load(**given)
        assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2,\n3,4,\n", "line 2 has 3 fields and the header 2; every row needs as many: a comma at the end"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields and the header 2"),
        ("a,b\n\n1,2\n\n3\n", "line 5 has 1 field and the header 2; every row needs as many: a field that is not"),
        ('a,b\n"1\n\n1",2\n3,4,5\n', "line 5 has 3 fields"),
        ("a;b\n1;2\n", "fields are separated by ';', commas are expected: the header is one field, 'a;b'; save"),
        ("\n age\tincome\n1,5\t2\n", "fields are separated by tabs, commas are expected"),
        ('a,b\n"1,2\n3,4\n', "the row in lines 2 to 3 has 1 field and the header 2; is a quote never closed?"),
    ],
)
def test_rows_of_a_csv_file_have_as_many_fields_as_its_header(tmp_path, text, message):
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    with pytest.raises(sg.InputError, match=re.escape(f"gate x: data = 'd.csv': {message}")):
        load_data({"data": "d.csv"}, "data", folder=tmp_path, where="gate x: ")


@pytest.mark.parametrize(("text", "encoding", "byte"), [("a,größe\n1,2\n", "latin-1", "f6"), ("a,b\n", "utf-16", "ff")])
def test_a_csv_file_that_is_not_utf_8_says_so(tmp_path, text, encoding, byte):
    (tmp_path / "d.csv").write_text(text, encoding=encoding)
    message = f"gate x: data = 'd.csv': it is not UTF-8, byte 0x{byte} was found: save it as UTF-8"
    with pytest.raises(sg.InputError, match=re.escape(message)):
        load_data({"data": "d.csv"}, "data", folder=tmp_path, where="gate x: ")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quotes_line_ends_and_blank_lines_of_a_csv_file_are_no_fields(tmp_path, end):
    lines = ["\ufeffa,b", '"x,y",1', "", f'"p{end}q",2', ",3", "   ", f"{'z' * 140_000},4", '"say ""hi""",5', "", ""]
    (tmp_path / "d.csv").write_bytes(end.join(lines).encode())
    frame, _ = load_data({"data": "d.csv"}, "data", folder=tmp_path, where="")
    assert list(frame.columns) == ["a", "b"]
    assert frame["b"].tolist() == [1, 2, 3, 4, 5]
    assert frame["a"].fillna("").str[:8].tolist()[::4] == ["x,y", 'say "hi"']
    assert frame["a"].isna().tolist() == [False, False, True, False, False]


def test_columns_that_a_model_does_not_know_are_named(tmp_path):
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["age", "income", "tenure"])
    label = rows["age"] > 0
    model = LogisticRegression().fit(rows, label)
    for data, message in (
        (
            rows.assign(id=1, label=0),
            "data: it has columns 'id', 'label', which the model was not fitted on: drop takes",
        ),
        (rows.drop(columns="age"), "data: it lacks column 'age' of the model (the model's: 'age', 'income', 'tenure')"),
        (
            rows.rename(columns={"income": "incom"}),
            "lacks column 'income' of the model (nearest: 'incom' for 'income')",
        ),
    ):
        with pytest.raises(sg.InputError, match=re.escape(message)):
            check_columns(data, model, "data")
    check_columns(rows[["tenure", "age", "income"]], model, "data")
    check_columns(rows.to_numpy(), model, "data")
    check_columns(rows.assign(id=1), LogisticRegression().fit(rows.to_numpy(), label), "data")
    chosen = make_pipeline(make_column_transformer(("passthrough", ["age"])), LogisticRegression()).fit(rows, label)
    check_columns(rows.drop(columns="tenure"), chosen, "data")  # it takes what it needs, by name
    with pytest.raises(sg.InputError, match="lacks column 'age' of the model"):
        check_columns(rows.drop(columns="age"), chosen, "data")


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_boosters_know_their_columns(kind):
    library = pytest.importorskip(kind)
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["years of age", "income"])
    label = (rows["income"] > 0).astype(int)
    matrix, quiet = (library.DMatrix, "verbosity") if kind == "xgboost" else (library.Dataset, "verbose")
    for data, named in ((rows, True), (rows.to_numpy(), False)):
        model = library.train({quiet: -(kind == "lightgbm")}, matrix(data, label=label), 2)
        check_columns(rows, model, "data")
        if named:
            with pytest.raises(sg.InputError, match="it has column 'id', which the model was not fitted on"):
                check_columns(rows.assign(id=1), model, "data")


@pytest.mark.parametrize(
    ("index", "given", "ids"),
    [
        ([3, 7, 9], ["3", "7"], [3, 7]),
        (["c1", "c2", "03"], ["c1", "03"], ["c1", "03"]),
        (["3", "7", "9"], [3], ["3"]),
        ([1.5, 2.0, 3.0], ["1.5", "2.0"], [1.5, 2.0]),
        ([3, "3", 4], ["3", "x"], ["3", "x"]),
    ],
)
def test_ids_are_matched_as_the_data_have_them(index, given, ids):
    assert as_ids(given, pd.DataFrame({"a": [0, 0, 0]}, index=index)) == ids
    assert as_ids(2, None) == 2


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
