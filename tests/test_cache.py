"""The cache: nothing explained twice, nothing reused that could differ, damage dropped, no pickle."""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import stabgate as sg
from stabgate.cache import Cache, CacheWarning, user_cache
from stabgate.cli import main
from stabgate.fingerprint import NoFingerprintError, fingerprint
from stabgate.runs import collect

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
ROWS = X[:3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STABGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def lime(model=None, **options):
    model = LogisticRegression().fit(X, Y) if model is None else model
    return sg.explainers.Lime(model, background=X, num_samples=100, **options)


def explained(attributions):
    """Model rows beyond the two calls that check the explained rows themselves."""
    return attributions.cost.rows - 2 * len(attributions.instances)


def test_an_unchanged_measurement_explains_nothing_again(folder):
    first = collect(lime(), ROWS, runs=4)
    again = collect(lime(), ROWS, runs=4)
    assert explained(first) > 0
    assert explained(again) == 0
    np.testing.assert_array_equal(again.values, first.values)
    assert first.provenance["cache"] == "0 of 12 explanations were known"
    assert again.provenance["cache"] == "12 of 12 explanations were known"
    assert explained(collect(lime(), ROWS, runs=4, cache=False)) > 0


def test_more_runs_and_more_rows_add_to_what_is_known(folder):
    collect(lime(), ROWS[:2], runs=4)
    more = collect(lime(), ROWS, runs=6)
    assert more.provenance["cache"] == "8 of 18 explanations were known"
    np.testing.assert_array_equal(more.values, collect(lime(), ROWS, runs=6, cache=False).values)
    fewer = collect(lime(), ROWS, runs=3)
    assert explained(fewer) == 0
    np.testing.assert_array_equal(fewer.values, more.values[:3])


def test_an_interrupted_measurement_resumes_at_the_row(folder, monkeypatch):
    explainer = lime()
    explain, calls = explainer.explain_encoded, []

    def interrupted(rows, i, seed):
        calls.append(i)
        if len(calls) > 6:
            raise KeyboardInterrupt
        return explain(rows, i, seed)

    monkeypatch.setattr(explainer, "explain_encoded", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collect(explainer, ROWS, runs=4)
    assert collect(lime(), ROWS, runs=4).provenance["cache"] == "4 of 12 explanations were known"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"explainer": lambda: lime(kernel_width=2.0)},
        {"explainer": lambda: lime(LogisticRegression(C=0.1).fit(X, Y))},
        {"explainer": lambda: sg.explainers.Lime(LogisticRegression().fit(X, Y), background=X[:-1], num_samples=100)},
        {"X": ROWS + 1e-12},
        {"target": 0},
    ],
)
def test_whatever_decides_a_value_is_part_of_the_key(folder, change):
    collect(lime(), ROWS, runs=2)
    explainer = change.pop("explainer", lime)()
    again = collect(explainer, change.pop("X", ROWS), runs=2, **change)
    assert again.provenance["cache"] == "0 of 6 explanations were known"


def test_a_damaged_entry_is_dropped_with_a_warning_and_computed_again(folder):
    first = collect(lime(), ROWS, runs=2)
    entries = sorted(folder.glob("*/*.npz"))
    assert len(entries) == 3
    entries[0].write_bytes(entries[0].read_bytes()[:40])
    np.savez(entries[1].open("wb"), values=np.ones((2, 7)))
    with pytest.warns(CacheWarning, match="is damaged") as caught:
        again = collect(lime(), ROWS, runs=2)
    assert len([w for w in caught if w.category is CacheWarning]) == 2
    assert again.provenance["cache"] == "2 of 6 explanations were known"
    np.testing.assert_array_equal(again.values, first.values)
    assert collect(lime(), ROWS, runs=2).provenance["cache"] == "6 of 6 explanations were known"


def test_entries_are_arrays_and_never_a_pickle(folder, monkeypatch):
    collect(lime(), ROWS, runs=2)
    for path in folder.glob("*/*.npz"):
        with np.load(path, allow_pickle=False) as archive:
            assert archive["values"].dtype == np.float64
    assert not list(folder.glob("*/*.partial"))


def test_workers_share_the_cache(folder):
    first = collect(lime(), ROWS, runs=3, n_jobs=2)
    again = collect(lime(), ROWS, runs=3)
    assert again.provenance["cache"] == "9 of 9 explanations were known"
    np.testing.assert_array_equal(first.values, again.values)


def test_the_longest_unused_entries_go_first(tmp_path):
    import os

    cache = Cache(tmp_path, limit=10_000_000)
    for n in range(4):
        cache.write(f"{n}" * 64, np.full((50, 20), float(n)))
        os.utime(cache._path(f"{n}" * 64), (n, n))
    assert cache.read("0" * 64, 20) is not None  # used just now
    size = cache.entries()[0][1]
    assert Cache(tmp_path, limit=2 * size + 10).trim() == 2
    assert [cache.read(f"{n}" * 64, 20) is not None for n in range(4)] == [True, False, False, True]


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STABGATE_CACHE", str(tmp_path / "file"))
    with pytest.warns(CacheWarning, match="could not be written"):
        collect(lime(), ROWS, runs=2)


def test_a_model_of_the_users_own_code_has_no_fingerprint_and_the_record_says_so(folder):
    def own(rows):
        return rows[:, 0]

    plain = collect(lime(own), ROWS, runs=2)
    assert plain.provenance["cache"].startswith("off: the model or explainer has no fingerprint, it uses")
    named = [collect(lime(sg.as_model(own, fingerprint=f"credit-{v}")), ROWS, runs=2) for v in (1, 1, 2)]
    assert [a.provenance["cache"] for a in named] == [f"{n} of 6 explanations were known" for n in (0, 6, 0)]
    with pytest.raises(sg.InputError, match="fingerprint=''"):
        sg.as_model(own, fingerprint="")


MODELS = [
    LogisticRegression(),
    RandomForestClassifier(5, random_state=0),
    GradientBoostingClassifier(n_estimators=5),
    make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), LogisticRegression()),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_fingerprint_survives_saving_and_use_and_tells_models_apart(model):
    model.fit(X, Y)
    found = fingerprint(model)
    model.predict_proba(X)
    assert fingerprint(model) == found
    assert fingerprint(pickle.loads(pickle.dumps(model))) == found
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    assert fingerprint(joblib.load(file)) == found
    assert fingerprint(model.fit(X, 1 - Y)) != found


def test_boosters_and_networks_have_fingerprints():
    import torch
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    for model in (XGBClassifier(n_estimators=3), LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1)):
        found = fingerprint(model.fit(X, Y))
        assert fingerprint(pickle.loads(pickle.dumps(model))) == found
        assert fingerprint(model.fit(X, 1 - Y)) != found
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    found = fingerprint(network)
    assert fingerprint(pickle.loads(pickle.dumps(network))) == found
    with torch.no_grad():
        network[0].weight[0, 0] += 1e-6
    assert fingerprint(network) != found


@pytest.mark.parametrize("model", [lambda X: X, make_pipeline(FunctionTransformer(lambda X: X)), open])
def test_what_has_no_fingerprint_says_why(model):
    if model is open:
        model = {"file": io.TextIOWrapper(io.BytesIO())}
    with pytest.raises(NoFingerprintError, match=r"uses|cannot be pickled"):
        fingerprint(model)


def test_the_command_clears_what_is_ours_and_nothing_else(folder, capsys):
    collect(lime(), ROWS, runs=2)
    (folder / "notes.txt").write_text("mine")
    assert main(["cache", "info"]) == 0
    assert "3 entries" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "3 entries" in capsys.readouterr().out
    assert [p.name for p in folder.rglob("*") if p.is_file()] == ["notes.txt"]


def test_off_means_off_and_a_wrong_limit_is_named(monkeypatch):
    monkeypatch.setenv("STABGATE_CACHE", "off")
    assert user_cache() is None
    assert collect(lime(), ROWS, runs=2).provenance["cache"] == "off: not wanted"
    monkeypatch.setenv("STABGATE_CACHE", "somewhere")
    monkeypatch.setenv("STABGATE_CACHE_LIMIT", "1 GB")
    with pytest.raises(sg.InputError, match="STABGATE_CACHE_LIMIT='1 GB'"):
        user_cache()
