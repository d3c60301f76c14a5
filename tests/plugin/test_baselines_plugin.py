"""Regression gates through pytest: missing baselines, updates, waivers, reruns, workers, and what a run left out."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree
from datetime import date, timedelta
from pathlib import Path

import hypothesis.internal.observability  # noqa: F401  # slow to load, and wanted by its plugin in every run
import pytest

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import pytest_stabgate.fixture  # noqa: F401
import stabgate.report.terminal  # noqa: F401
from stabgate.baselines.store import Baselines
from stabgate.baselines.waivers import add_waiver
from stabgate.cli import main

# Three features whose magnitudes are 3, 2 and 1 with a spread from outside: 0.05 keeps them apart, 2 does not.
GATE = """
    import os
    import numpy as np
    import pytest
    import stabgate as sg

    X = np.zeros((6, 3))

    def explainer(failing=()):
        spread = float(os.environ.get("SPREAD", "0.05"))
        def explain(X, seed):
            return np.array([3.0, 2.0, 1.0]) + spread * np.random.default_rng(seed).normal(size=3)
        return sg.explainers.Custom(explain, name="noise")

    def measured(stabgate, **options):
        return stabgate.measure_k_stability(explainer(), X, runs=8, **options)
"""
ONE = """
    def test_one(stabgate):
        stabgate.assert_no_regression(measured(stabgate), max_drop=0.2, name="credit/one")
"""
TWO = """
    def test_two(stabgate):
        verdict = stabgate.assert_no_regression(explainer(), X=X, runs=8, max_drop=0.2, k=2, name="credit/two")
        assert verdict.requirement.metric == "share of rows with k >= 2"
"""
FLOOR = """
    def test_floor(stabgate):
        stabgate.assert_min_k_stability(measured(stabgate), k=3, name="floor")
"""


@pytest.fixture
def gates(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Write a test file; what comes back runs it: spread of the explanations and flags -> result."""

    def write(*parts: str, ini: str = ""):
        pytester.makeini("[pytest]\n" + ini)
        pytester.makepyfile(test_gates="\n".join([GATE, *parts]))

        def run(*flags: str, spread: float = 0.05) -> pytest.RunResult:
            monkeypatch.setenv("SPREAD", str(spread))
            return pytester.runpytest("-p", "no:cacheprovider", *flags)

        return run

    return write


def kept(pytester: pytest.Pytester, folder: str = "stabgate-baselines") -> dict[str, float | None]:
    """Value of each baseline in the folder."""
    baselines = Baselines(pytester.path / folder)
    return {name: baselines.read(name).record.value for name in baselines.names()}


def report(pytester: pytest.Pytester) -> dict:
    return json.loads((pytester.path / "r.json").read_text())


def test_a_missing_baseline_fails_with_the_command_that_creates_it(gates, pytester):
    run = gates(ONE)
    result = run("--stabgate-seed=3")
    assert result.ret == 1
    command = "pytest test_gates.py::test_one --stabgate-seed=3 --stabgate-update-new"
    assert f"there is no baseline 'credit/one' in stabgate-baselines; create it with: {command}" in result.stdout.str()
    assert not (pytester.path / "stabgate-baselines").exists()
    created = run(*command.split()[1:])
    assert created.ret == 0
    assert "baseline credit/one: new, stabgate-baselines/credit/one.json (mean k 3; " in created.stdout.str()
    assert "PASS (new baseline)" in created.stdout.str()
    again = run("--stabgate-seed=3")
    assert again.ret == 0
    assert "baseline credit/one" in again.stdout.str()
    assert "other seeds" not in again.stdout.str()


def test_a_drop_fails_update_shows_it_and_writes_it_with_the_reason(gates, pytester):
    run = gates(ONE, TWO, FLOOR)
    assert run("--stabgate-update").ret == 0
    before = kept(pytester)
    assert before == {"credit/one": 3.0, "credit/two": 3.0}
    worse = run("-k", "one or two", spread=2)
    worse.assert_outcomes(failed=2, deselected=1)
    assert "FAIL credit/one: mean k fell by" in worse.stdout.str()
    assert "FAIL credit/two: share of rows with k >= 2 fell by 0.9" in worse.stdout.str()
    assert kept(pytester) == before
    new = run("-k", "one or two", "--stabgate-update-new", spread=2)  # both have one: compared as ever
    new.assert_outcomes(failed=2, deselected=1)
    assert "baselines: none written" in new.stdout.str()
    updated = run("-k", "one", "--stabgate-update", "--stabgate-reason=other data", spread=2)
    assert updated.ret == 0
    text = updated.stdout.str()
    assert "FAIL (becomes the baseline)" in text
    assert "mean k fell by 1.978, from 3 to 1.022" in text
    assert "baseline credit/one: updated, stabgate-baselines/credit/one.json (mean k 3 -> 1" in text
    assert Baselines(pytester.path / "stabgate-baselines").read("credit/one").accepted.why == "other data"
    run("-k", "one", "--stabgate-json=r.json")
    [gate] = report(pytester)["gates"]
    [note] = [note for note in gate["verdict"]["notes"] if note.startswith("the baseline was accepted on ")]
    assert note.endswith(": other data")
    assert kept(pytester)["credit/two"] == 3.0  # a part of the run touches only its own
    better = run("-k", "one")
    assert better.ret == 0
    assert "is better now, mean k 1" in better.stdout.str()
    same = run("-k", "one", "--stabgate-update", spread=2)
    assert "baseline credit/one: unchanged" in same.stdout.str()


def test_missing_can_record_or_skip(gates, pytester):
    run = gates(ONE)
    skipped = run("--stabgate-missing=skip", "-rs")
    skipped.assert_outcomes(skipped=1)
    assert "create it with: pytest test_gates.py::test_one --stabgate-update-new" in skipped.stdout.str()
    recorded = run("--stabgate-missing=record", "--stabgate-reason=first")
    assert recorded.ret == 0
    assert "baseline credit/one: new" in recorded.stdout.str()
    assert Baselines(pytester.path / "stabgate-baselines").read("credit/one").accepted.why == "first"
    assert run("--stabgate-missing=record", spread=2).ret == 1  # there is one now


def test_what_was_not_measured_and_tests_that_fail_otherwise_write_nothing(gates, pytester):
    run = gates(
        """
    def failing(X, seed):
        if seed % 2:
            raise RuntimeError("no licence")
        return np.array([3.0, 2.0, 1.0])

    def test_unmeasured(stabgate):
        result = stabgate.measure_k_stability(sg.explainers.Custom(failing), X, runs=8)
        stabgate.assert_no_regression(result, max_drop=0.2, name="unmeasured")

    def test_short(stabgate):
        stabgate.assert_no_regression(explainer(), X=X, runs=3, max_drop=0.2, name="short")

    def test_otherwise(stabgate):
        stabgate.assert_no_regression(measured(stabgate), max_drop=0.2, name="otherwise")
        assert 1 == 2
    """,
        ONE,
    )
    result = run("--stabgate-update")
    result.assert_outcomes(failed=3, passed=1)
    text = result.stdout.str()
    assert "baseline 'unmeasured' is not written: 6 of 6 rows were not measured (row 0: run " in text
    assert "baseline 'short' is not written: 3 runs have no half-samples" in text
    assert "baseline otherwise: not written, test_gates.py::test_otherwise did not pass" in text
    assert list(kept(pytester)) == ["credit/one"]


def test_one_baseline_belongs_to_one_gate_also_across_workers(gates, pytester):
    run = gates(ONE, ONE.replace("test_one", "test_uno").replace("credit/one", "Credit/One"), FLOOR)
    for flags in ((), ("-n", "2")):
        result = run("--stabgate-update", *flags)
        assert result.ret == 1
        text = result.stdout.str()
        assert "test_gates.py::test_one" in text
        assert "is used by test_gates.py::test_" in text
        assert "which differ only in case" in text
        assert "one baseline belongs to one gate" in text
        assert kept(pytester) == {}
    run = gates(ONE, TWO.replace("credit/two", "CREDIT/two"))
    for flags in ((), ("-n", "2")):
        result = run("--stabgate-update", *flags)
        assert result.ret == 1
        assert "lie in folders that differ only in case" in result.stdout.str()
        assert kept(pytester) == {}
    twice = ONE + ONE.split("\n", 2)[2]
    result = gates(twice)("--stabgate-update")
    assert result.ret == 1
    assert "baseline 'credit/one' is used twice by test_gates.py::test_one" in result.stdout.str()


def test_a_floor_and_a_baseline_share_a_name_and_stand_apart_in_junit(gates, pytester):
    both = ONE + FLOOR.split("\n", 2)[2].replace('"floor"', '"credit/one"')
    assert gates(both)("--stabgate-update", "--junitxml=out.xml").ret == 0
    names = [one.get("name") for one in xml.etree.ElementTree.parse(pytester.path / "out.xml").iter("property")]
    assert len(set(names)) == len(names)
    verdicts = [name for name in names if name.endswith(".verdict")]
    assert verdicts == ["stabgate.credit/one.verdict", "stabgate.credit/one (2).verdict"]


def test_reruns_count_once_and_the_last_attempt_is_what_is_written(gates, pytester):
    flaky = """
    from pathlib import Path

    def test_flaky(stabgate):
        tries = Path("tries")
        n = len(tries.read_text()) if tries.exists() else 0
        tries.write_text("x" * (n + 1))
        stabgate.assert_no_regression(measured(stabgate, seed=n), max_drop=0.2, name="flaky")
        assert n == 2
    """
    run = gates(flaky)
    result = run("--stabgate-update", "--reruns=4", "--junitxml=out.xml", "--stabgate-json=r.json")
    assert result.ret == 0
    assert Baselines(pytester.path / "stabgate-baselines").read("flaky").record.seed == 2
    assert [gate["name"] for gate in report(pytester)["gates"]] == ["flaky"]
    assert report(pytester)["complete"]
    attempts = list(xml.etree.ElementTree.parse(pytester.path / "out.xml").iter("testcase"))
    names = [[one.get("name") for one in attempt.iter("property")] for attempt in attempts]
    assert [found.count("stabgate.flaky.verdict") for found in names] == [1, 1, 1]
    (pytester.path / "tries").unlink()
    worse = run("--stabgate-update", "--reruns=1", "-n", "2", "--stabgate-json=r.json", spread=2)
    assert worse.ret == 1
    assert "baseline flaky: not written, test_gates.py::test_flaky did not pass" in worse.stdout.str()
    assert kept(pytester) == {"flaky": 3.0}


CRASH = """
    def test_crash(stabgate):
        measured(stabgate)
        os._exit(3)
"""


def test_a_worker_that_crashes_takes_nothing_with_it(gates, pytester):
    run = gates(ONE, TWO, CRASH)
    result = run("--stabgate-update", "-n", "2", "--stabgate-json=r.json")
    assert result.ret == 1
    assert kept(pytester) == {"credit/one": 3.0, "credit/two": 3.0}
    found = report(pytester)
    assert not found["complete"]
    assert "crashed" in found["incomplete_because"]
    assert "test_gates.py::test_crash" in found["incomplete_because"]


SKIPPED = """
    @pytest.mark.skip(reason="later")
    def test_later(stabgate):
        measured(stabgate)
"""
PLAIN = """
    def test_plain():
        pass
"""
NO_VERDICT = """
    def test_none(stabgate):
        with pytest.raises(sg.InputError):
            stabgate.assert_min_k_stability(explainer(), X, k=9, runs=8)
"""
TWO_GATES = """
    def test_pair(stabgate):
        stabgate.assert_min_k_stability(measured(stabgate), k=3, name="first")
        stabgate.assert_min_k_stability(measured(stabgate), k=2, name="second")
"""
SHARD = """
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items):
        items[:] = items[1:]
"""


@pytest.mark.parametrize(
    ("parts", "flags", "spread", "because"),
    [
        ((FLOOR, PLAIN), [], 0.05, ""),
        ((FLOOR, PLAIN), ["-m", "stabgate"], 0.05, ""),
        ((FLOOR, PLAIN), ["."], 0.05, ""),
        ((FLOOR,), [], 2, ""),  # a gate that fails came to a verdict
        ((TWO_GATES,), [], 2, "failed, and gates further down in them may not have run: test_gates.py::test_pair"),
        ((FLOOR, TWO_GATES), ["-k", "floor"], 0.05, "were left out (-k, -m, --deselect, --lf, or a plugin that"),
        ((FLOOR, TWO_GATES), ["--deselect=test_gates.py::test_pair"], 0.05, "left out"),
        ((FLOOR,), ["test_gates.py"], 0.05, "only test_gates.py was asked for"),
        ((FLOOR,), ["test_gates.py::test_floor"], 0.05, "only test_gates.py::test_floor was asked for"),
        ((FLOOR, TWO_GATES), ["-x"], 2, "did not run: test_gates.py::test_pair"),
        ((FLOOR, SKIPPED), [], 0.05, "were skipped: test_gates.py::test_later"),
        ((FLOOR, NO_VERDICT), [], 0.05, "came to no verdict: test_none"),
        ((FLOOR,), ["--collect-only"], 0.05, "--collect-only left tests out"),
        ((FLOOR,), ["--ignore=other"], 0.05, "--ignore left tests out"),
        ((FLOOR, TWO_GATES), ["-p", "shard"], 0.05, "a plugin that shards"),
        ((FLOOR, TWO_GATES), ["-n", "2", "-k", "floor"], 0.05, "left out"),
        ((FLOOR, TWO_GATES), ["-n", "2"], 0.05, ""),
    ],
)
def test_whether_every_gate_came_to_a_verdict_is_said(gates, pytester, parts, flags, spread, because):
    pytester.makepyfile(shard=SHARD)
    pytester.syspathinsert()
    gates(*parts)("--stabgate-json=r.json", *flags, spread=spread)
    found = report(pytester)
    assert found["complete"] is (because == "")
    assert because in found["incomplete_because"]
    assert bool(found["incomplete_because"]) is not found["complete"]


def test_a_file_that_cannot_be_collected_makes_a_run_incomplete(gates, pytester):
    run = gates(FLOOR)
    pytester.makepyfile(test_other="import nowhere_at_all")
    assert run("--stabgate-json=r.json", "--continue-on-collection-errors").ret == 1
    assert "could not be collected or were skipped as a whole: test_other.py" in report(pytester)["incomplete_because"]
    pytester.makepyfile(test_other="import pytest; pytest.importorskip('nowhere_at_all')")
    run("--stabgate-json=r.json")
    assert "skipped as a whole: test_other.py" in report(pytester)["incomplete_because"]


def test_a_budget_that_ends_first_is_no_measurement_and_no_baseline(gates, pytester):
    run = gates(ONE, TWO)
    result = run("--stabgate-update-new", "--stabgate-budget=0.0001s")
    assert result.ret == 1
    text = result.stdout.str()
    for name in ("test_one", "test_two"):
        assert f"{name} - stabgate.errors.BudgetError: the budget of 0.0001s ended after 0 of 8 runs" in text
    assert "NOT MEASURED credit/two: the budget of 0.0001s ended after 0 of 8 runs" in text
    assert kept(pytester) == {}
    assert run("--stabgate-update-new", "--stabgate-budget=10m").ret == 0
    assert run().ret == 0


def test_what_a_conftest_leaves_out_makes_a_run_incomplete(gates, pytester):
    run = gates(FLOOR)
    pytester.mkpydir("sub").joinpath("test_sub.py").write_text("def test_a(stabgate): ...")
    pytester.mkpydir("tools").joinpath("setup.py").write_text("")
    pytester.makeconftest("collect_ignore = ['sub', 'tools']")
    assert run("--stabgate-json=r.json").ret == 0
    because = report(pytester)["incomplete_because"]
    assert because == f"were not collected (collect_ignore of a conftest, or a plugin): {pytester.path / 'sub'}"
    pytester.makeconftest("")
    run("--stabgate-json=r.json", "-o", "python_files=test_g*.py")
    assert "-o python_files left tests out" in report(pytester)["incomplete_because"]
    pytester.makeconftest("collect_ignore = ['tools']")
    run("--stabgate-json=r.json", "--ignore=sub")
    assert f"a plugin): {pytester.path / 'sub'}" in report(pytester)["incomplete_because"]


def test_the_command_that_creates_a_baseline_names_the_configuration_too(gates, pytester, monkeypatch):
    gates(ONE)
    home = pytester.mkdir("ci")
    (home / "my.ini").write_text("[pytest]\n")
    first = pytester.runpytest("-p", "no:cacheprovider", "-c", "ci/my.ini", "test_gates.py")
    assert first.ret == 1
    command = first.stdout.str().split("create it with: pytest ")[1].splitlines()[0]
    assert command == "-c ci/my.ini test_gates.py::test_one --stabgate-update-new"
    assert pytester.runpytest("-p", "no:cacheprovider", *command.split()).ret == 0
    assert kept(pytester, "ci/stabgate-baselines") == {"credit/one": 3.0}
    assert pytester.runpytest("-p", "no:cacheprovider", "-c", "ci/my.ini", "test_gates.py").ret == 0


def test_an_unreadable_baseline_is_replaced_and_said_to_be_and_a_later_one_is_not(gates, pytester):
    run = gates(ONE)
    file = pytester.path / "stabgate-baselines" / "credit" / "one.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    replaced = run("--stabgate-update")
    assert replaced.ret == 0
    assert "one.json (mean k 3; what was there could not be compared with; " in replaced.stdout.str()
    later = file.read_text().replace('"schema": 1', '"schema": 7')
    file.write_text(later)
    refused = run("--stabgate-update")
    assert refused.ret == 1
    assert "schema 7; this stabgate reads 1: update stabgate" in refused.stdout.str()
    assert file.read_text() == later


def test_what_ci_measured_is_accepted_and_what_nothing_uses_is_pruned(gates, pytester, capsys):
    run = gates(ONE, FLOOR)
    assert run("--stabgate-json=r.json").ret == 1
    assert main(["accept", "r.json", "--reason", "measured in CI"]) == 0
    result = run("--stabgate-json=r.json")
    assert result.ret == 0
    assert report(pytester)["complete"]
    assert report(pytester)["baselines"] == "stabgate-baselines"
    gate = next(gate for gate in report(pytester)["gates"] if gate["kind"] == "regression")
    assert gate["verdict"]["estimate"] == 0
    assert gate["before"] == gate["record"]
    Baselines("stabgate-baselines").write("old", Baselines("stabgate-baselines").read("credit/one").record, "x")
    assert main(["prune", "r.json"]) == 0  # of a run before that
    assert list(kept(pytester)) == ["credit/one", "old"]
    run("--stabgate-json=r.json")
    assert main(["prune", "r.json"]) == 0
    assert list(kept(pytester)) == ["credit/one"]


def test_a_waiver_lets_a_known_failure_through_until_its_date(gates, pytester):
    run = gates(FLOOR)
    folder = pytester.path / "stabgate-baselines"
    soon = (date.today() + timedelta(days=9)).isoformat()
    add_waiver(folder, "floor", until=soon, reason="new model soon", by="Ada")
    add_waiver(folder, "flor", until=soon, reason="typo", by="Ada")
    waived = run("--stabgate-json=r.json", spread=2)
    waived.assert_outcomes(passed=1, warnings=1)
    assert waived.ret == 0
    text = waived.stdout.str()
    assert f"(waived until {soon}: new model soon)" in text
    assert "FAIL (waived" in text
    assert f"WaivedWarning: FAIL: floor is waived until {soon}: new model soon: 0 of 6 rows" in text
    assert "waiver of flor" in text
    assert "is of no gate that there is" in text
    assert run("-W", "error", spread=2).ret == 0
    assert report(pytester)["gates"][0]["waived"] == f"until {soon}: new model soon"
    assert "waiver of floor" in run().stdout.str()  # it passes
    assert "is no longer needed: the gate passes" in run().stdout.str()
    file = folder / "waivers.json"
    file.write_text(file.read_text().replace(soon, "2020-01-31"))
    over = run(spread=2)
    assert over.ret == 1
    assert "the waiver of this gate has ended (until 2020-01-31: new model soon)" in over.stdout.str()
    file.write_text(file.read_text().replace("2020-01-31", "soon"))
    broken = run()
    assert broken.ret == pytest.ExitCode.USAGE_ERROR
    assert "waivers.json: 'floor': until='soon' is not a date" in broken.stderr.str()


def test_what_was_not_measured_is_never_waived(gates, pytester):
    run = gates(ONE, NO_VERDICT.replace("        with pytest.raises(sg.InputError):\n    ", ""))
    folder = pytester.path / "stabgate-baselines"
    for name in ("credit/one", "test_none"):
        add_waiver(folder, name, until="2999-01-01", reason="x", by="Ada")
    run().assert_outcomes(failed=2)


def test_the_folder_comes_from_flag_then_ini(gates, pytester):
    run = gates(ONE, ini="stabgate_baselines = kept/here\n")
    assert run("--stabgate-update-new").ret == 0
    assert list(kept(pytester, "kept/here")) == ["credit/one"]
    missing = run("--stabgate-baselines=other")
    assert "no baseline 'credit/one' in other; create it with: pytest test_gates.py::test_one" in missing.stdout.str()
    assert "--stabgate-baselines=other --stabgate-update-new" in missing.stdout.str()
    os.chdir(pytester.mkdir("sub"))
    below = run("..", "-k", "one", "--stabgate-baselines=other")
    assert "create it with: pytest ../test_gates.py::test_one --stabgate-baselines=other" in below.stdout.str()
    assert run("..").ret == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--stabgate-update", "--stabgate-update-new"], "--stabgate-update writes new baselines as well"),
        (["--stabgate-reason=x"], "nothing is written without --stabgate-update or"),
        (["--stabgate-reason= ", "--stabgate-update"], "--stabgate-reason is empty"),
        (["--stabgate-baselines="], "--stabgate-baselines is empty"),
        (["--stabgate-missing=ask"], "--stabgate-missing='ask': it must be fail, record or skip"),
    ],
)
def test_flags_that_contradict_each_other_are_usage_errors(gates, flags, message):
    result = gates(ONE)(*flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "measured(stabgate), max_drop=0.2",
            "name is missing: a baseline is a file, and its name is written in the test",
        ),
        ("measured(stabgate), max_drop=0.2, name='a b'", "it has ' '"),
        ("measured(stabgate), max_drop=0.2, name='a.json'", "ends like a file"),
        ("measured(stabgate), max_drop=-1, name='a'", "max_drop=-1"),
        ("explainer(), X, max_drop=0.2, name='a'", "baseline is a ndarray"),
        ("explainer(), max_drop=0.2, name='a'", "an explainer with X= (rows) or images="),
        ("measured(stabgate), X=X, max_drop=0.2, name='a'", "X cannot be given with a result"),
        ("measured(stabgate), runs=9, max_drop=0.2, name='a'", "runs cannot be given with a result"),
        ("measured(stabgate), 'x/nowhere.json', max_drop=0.2", "x/nowhere.json: cannot be read"),
    ],
)
def test_calls_that_cannot_be_meant_fail_with_the_reason(gates, pytester, call, message):
    result = gates(f"    def test_call(stabgate):\n        stabgate.assert_no_regression({call})\n")(
        "--stabgate-update-new"
    )
    assert result.ret == 1
    assert message in result.stdout.str()
    assert kept(pytester) == {}


def test_an_earlier_result_or_a_file_can_be_compared_with(gates, pytester):
    run = gates(
        ONE,
        """
    def test_earlier(stabgate):
        now = measured(stabgate)
        stabgate.assert_no_regression(now, now, max_drop=0)
        stabgate.assert_no_regression(now, sg.Record.of(now), max_drop=0, name="a b")
        if os.path.exists("stabgate-baselines/credit/one.json"):
            stabgate.assert_no_regression(now, "stabgate-baselines/credit/one.json", max_drop=0)
    """,
    )
    assert run("--stabgate-update-new").ret == 0
    assert run().ret == 0
    assert list(kept(pytester)) == ["credit/one"]


def test_a_damaged_baseline_fails_with_file_and_field_and_can_be_replaced(gates, pytester):
    run = gates(ONE)
    run("--stabgate-update")
    path = Path("stabgate-baselines/credit/one.json")
    path.write_text(path.read_text().replace('"runs": 8', '"runs": "8"'))
    result = run()
    assert result.ret == 1
    assert "credit/one.json: record.runs: an integer of at least 1 is needed, found '8'" in result.stdout.str()
    assert run("--stabgate-update").ret == 0
    assert run().ret == 0
