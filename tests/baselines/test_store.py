"""The folder of baselines: whole files through kills and several writers, names that are one, matrices beside it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from records import of_fass, of_k

import stabgate as sg
from stabgate.baselines import read_baseline
from stabgate.baselines.store import Baselines
from stabgate.baselines.waivers import add_waiver
from stabgate.files import locked

WHY = "first"


def child(work: Callable[[], None]) -> int:
    """A process of its own that does this; its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return pid


def test_a_baseline_is_read_by_name_and_by_path(tmp_path, monkeypatch):
    baselines = Baselines(tmp_path / "stabgate-baselines")
    assert baselines.write("credit/shap", of_k(), WHY)
    accepted = baselines.read("credit/shap").accepted
    assert (accepted.why, accepted.on) == ("first", date.today().isoformat())
    assert accepted.by
    assert read_baseline("credit/shap", baselines.folder) == of_k()
    assert read_baseline(str(tmp_path / "stabgate-baselines/credit/shap.json")) == of_k()
    monkeypatch.chdir(tmp_path)
    assert read_baseline("credit/shap") == of_k()
    with pytest.raises(
        sg.InputError, match=r"no baseline 'credit/lime' in .* \(there: credit/shap\); write it with: py"
    ):
        read_baseline("credit/lime")
    with pytest.raises(sg.InputError, match=r"nowhere\.json: cannot be read"):
        read_baseline("nowhere.json")


def test_what_did_not_change_is_not_written_again(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.write("a", of_fass(), WHY)
    path = baselines.path("a")
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
    assert not baselines.write("a", of_fass(), "second", by="Bob")
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert baselines.write("a", of_fass(seed=4), "second", by="Bob")
    assert baselines.read("a").accepted.by == "Bob"


def test_what_cannot_be_a_baseline_leaves_the_old_one(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.write("a", of_k(), WHY)
    bad = replace(of_k(), rows=(replace(of_k().rows[0], k=0, halves=()),))
    with pytest.raises(sg.InputError, match="baseline 'a' is not written: 1 of 1 rows were not measured"):
        baselines.write("a", bad, WHY)
    assert baselines.read("a").record == of_k()


def test_a_damaged_file_is_replaced_by_writing(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.path("a").write_text("{")
    with pytest.raises(sg.InputError, match="damaged"):
        baselines.read("a")
    assert baselines.write("a", of_k(), WHY)
    assert baselines.read("a").record == of_k()


def test_names_that_differ_in_case_are_one(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.write("credit/shap", of_k(), WHY)
    for act in (lambda: baselines.read("Credit/SHAP"), lambda: baselines.write("credit/Shap", of_k(), WHY)):
        with pytest.raises(sg.InputError, match=r"has a baseline 'credit/shap' and none .* differ only in case"):
            act()
    with pytest.raises(sg.InputError, match="and folders that differ only in case"):
        baselines.write("CREDIT/other", of_k(), WHY)
    assert baselines.names() == ["credit/shap"]
    assert baselines.write("credit", of_k(), WHY)  # a file beside a folder


def test_what_a_later_stabgate_wrote_is_not_replaced(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.write("a", of_k(), WHY)
    later = baselines.path("a").read_text().replace('"schema": 1', '"schema": 7')
    baselines.path("a").write_text(later)
    with pytest.raises(sg.InputError, match="schema 7; this stabgate reads 1: update stabgate"):
        baselines.write("a", of_k(seed=1), WHY)
    assert baselines.path("a").read_text() == later


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(sg.InputError, match=r"a\.json: is a folder"):
        Baselines(tmp_path).read("a")
    assert Baselines(tmp_path).names() == []


def test_a_file_that_was_moved_is_not_taken_for_another_baseline(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.write("a", of_k(), WHY)
    baselines.path("a").rename(baselines.path("b"))
    with pytest.raises(sg.InputError, match="name: is 'a' and belongs to another place"):
        baselines.read("b")


def test_a_name_and_a_folder_of_that_name_and_the_waivers_do_not_collide(tmp_path):
    baselines = Baselines(tmp_path)
    for name in ("credit", "credit/shap", "credit/shap/men", "waivers/a"):
        baselines.write(name, of_k(), WHY)
    add_waiver(tmp_path, "credit", until="2999-01-01", reason="x", by="y")
    assert baselines.names() == ["credit", "credit/shap", "credit/shap/men", "waivers/a"]
    gone = baselines.remove("credit/shap/men")
    assert [path.name for path in gone] == ["men.json"]
    assert not (tmp_path / "credit/shap").exists()
    assert baselines.read("credit/shap").record == of_k()


def test_matrices_lie_beside_it_outside_git(tmp_path):
    explainer = sg.explainers.Custom(
        lambda X, seed: np.array([3.0, 2.0, 1.0]) + np.random.default_rng(seed).normal(size=3)
    )
    result = sg.measure_k_stability(explainer, np.zeros((4, 3)), runs=8)
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    result.attributions.save(evidence / "attributions.npz")
    np.savez_compressed(evidence / "distances.npz", distances=result.distances, ranking=result.ranking)
    home = tmp_path / "repository"
    baselines = Baselines(home / "stabgate-baselines")
    baselines.write("credit/shap", sg.Record.of(result), WHY, evidence=str(evidence))
    beside = baselines.path("credit/shap").with_suffix(".npz")
    np.testing.assert_array_equal(sg.Attributions.load(beside).values, result.attributions.values)
    with np.load(beside, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["distances"], result.distances)
    subprocess.run(["git", "init", "-q", "."], cwd=home, check=True)
    seen = subprocess.run(["git", "status", "--short", "-uall"], cwd=home, check=True, capture_output=True, text=True)
    assert seen.stdout.split() == ["??", "stabgate-baselines/.gitignore", "??", "stabgate-baselines/credit/shap.json"]
    beside.unlink()
    assert not baselines.write("credit/shap", sg.Record.of(result), WHY, evidence=str(evidence))
    assert beside.exists()  # a checkout has none, and gets one


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path):
    baselines = Baselines(tmp_path)
    records = [of_k(200), of_k(200, seed=1)]
    baselines.write("a", records[0], WHY)

    ready, begun = os.pipe()

    def write_on():
        os.write(begun, b"x")
        while True:
            for record in records[::-1]:
                baselines.write("a", record, WHY)

    draw = random.Random(0)
    seen, partial = set(), 0
    for kills in range(400):  # on a busy machine a child may not get as far as writing: 40 kills, or more until both
        if kills >= 40 and partial and len(seen) == 2:
            break
        pid = child(write_on)
        os.read(ready, 1)
        time.sleep(draw.uniform(0.0, 0.15))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        partial += any(tmp_path.glob(".*.partial"))
        found = baselines.read("a").record
        assert found in records
        seen.add(found.seed)
    os.close(ready)
    os.close(begun)
    assert seen == {0, 1}
    assert partial  # some were killed in the middle of a write
    started = time.monotonic()
    baselines.write("a", of_k(3), WHY)  # no lock is left, and what was half written goes
    assert time.monotonic() - started < 5
    assert list(tmp_path.glob(".*.partial")) == []
    assert baselines.read("a").record == of_k(3)


def test_several_writers_of_one_baseline_take_turns(tmp_path):
    baselines = Baselines(tmp_path)
    baselines.write("a", of_k(50), WHY)

    def write(seed):
        return lambda: [baselines.write("a", of_k(50, seed=10 * seed + i), WHY) for i in range(8)] and None

    running = {child(write(seed)) for seed in range(4)}
    while running:
        assert len(baselines.read("a").record.rows) == 50
        pid, status = os.waitpid(-1, os.WNOHANG) if running else (0, 0)
        if pid in running:
            assert status == 0
            running.discard(pid)
    assert baselines.read("a").record.seed % 10 == 7


def test_a_writer_that_holds_on_is_an_error_after_a_while(tmp_path):
    ready, wait = os.pipe()

    def hold():
        with locked(tmp_path / ".lock"):
            os.write(wait, b"x")
            time.sleep(30)

    pid = child(hold)
    os.read(ready, 1)
    with (
        pytest.raises(sg.InputError, match=r"another process has held this lock for 0.2 s"),
        locked(tmp_path / ".lock", 0.2),
    ):
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with locked(tmp_path / ".lock", 5):
        pass
    os.close(ready)
    os.close(wait)
