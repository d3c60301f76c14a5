"""The plugin through pytest itself: flags, ini keys, marker, table, messages, exit codes, xdist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree

# In-process pytest runs forget modules that they import first, and NumPy cannot be loaded twice: have it all before.
import hypothesis.internal.observability  # noqa: F401  # slow to load, and wanted by its plugin in every run
import pytest
from plugin_gates import NOISY

import pytest_stabgate.fixture  # noqa: F401
import stabgate.report.terminal  # noqa: F401
from stabgate.report.html import render_html
from stabgate.report.junit import junit
from stabgate.report.markdown import markdown
from stabgate.report.session import SessionReport

PASSING = """
    def test_steady(stabgate):
        verdict = stabgate.assert_min_k_stability(noisy(0.01), X, k=3, share=0.9)
        assert verdict.passed and verdict.estimate == 1.0
"""
FAILING = """
    def test_shaky(stabgate):
        stabgate.assert_min_k_stability(noisy(2.0), X, k=3, share=0.9, name="credit/shaky")
"""


@pytest.fixture
def gates(pytester: pytest.Pytester):
    def write(*parts: str, ini: str = ""):
        if ini:
            pytester.makeini("[pytest]\n" + ini)
        pytester.makepyfile(test_gates="\n".join([NOISY, *parts]))
        return pytester

    return write


def table(result: pytest.RunResult) -> list[list[str]]:
    """Cells of the summary table without the seconds, which differ from run to run."""
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("gate  "))
    rows = []
    for line in lines[start:]:
        if not line:
            break
        cells = re.split(r"\s{2,}", line.strip())
        rows.append(cells[:8] + cells[9:])
    return rows


def properties(pytester: pytest.Pytester, gate: str) -> dict[str, str]:
    """What the JUnit file says of a gate."""
    found = xml.etree.ElementTree.parse(pytester.path / "out.xml").iter("property")
    values = {one.get("name", ""): one.get("value", "") for one in found}
    start = f"stabgate.{gate}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}


def test_a_met_requirement_passes_and_is_in_the_table(gates):
    result = gates(PASSING).runpytest("-p", "no:cacheprovider")
    assert result.ret == 0
    headings, row = table(result)
    assert headings[0] == "gate"
    assert row == ["test_steady", "noise 0.01", "3", "6/6 (100 %)", "k >= 3 on 90 % of rows", "1", "10/50", "0", "PASS"]


def test_an_unmet_requirement_fails_the_build_with_the_reason_first(gates):
    result = gates(PASSING, FAILING).runpytest("--stabgate-runs=20")
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    first = next(line for line in result.outlines if line.startswith("E  "))
    assert re.search(
        r"FAIL: credit/shaky: required k >= 3 on 90 % of rows, measured 0 % \(0 of 6 rows, 95 % interval 0 % to 7.3 %\)"
        r" \[distance >= 0.9, 10 of 20 runs, all-pairs\]",
        first,
    )
    worst = re.findall(r"row (\d): k = 1: '(x\d)' and '(x\d)' cannot be told apart \(distance (0\.\d+)\)", text)
    assert len(worst) == 5
    assert [float(w[3]) for w in worst] == sorted(float(w[3]) for w in worst)
    assert "and 1 more rows below the requirement" in text
    assert "replay: pytest test_gates.py::test_shaky --stabgate-runs=20" in text
    assert [row[0] for row in table(result)] == ["gate", "credit/shaky", "test_steady"]  # problems first


def test_the_failure_shows_the_users_line_and_none_of_ours(gates):
    result = gates(FAILING).runpytest()
    text = result.stdout.str()
    assert "stabgate.assert_min_k_stability(noisy(2.0)" in text
    assert "gate.py" not in text
    assert "runs.py" not in text


def test_two_workers_give_the_same_verdicts_table_and_exit_code(gates):
    pytester = gates(PASSING, FAILING, PASSING.replace("steady", "calm"))
    serial = pytester.runpytest("-p", "no:randomly")
    spread = pytester.runpytest("-n", "2")
    assert serial.ret == spread.ret == 1
    assert table(serial) == table(spread)
    assert len(table(serial)) == 4
    spread.assert_outcomes(passed=2, failed=1)


def test_a_threshold_above_what_is_measured_fails_also_under_xdist(gates):
    borderline = PASSING.replace("0.01", "0.2")
    pytester = gates(borderline)
    assert pytester.runpytest().ret == 0
    assert pytester.runpytest("--stabgate-threshold=1").ret == 1
    assert pytester.runpytest("--stabgate-threshold=1", "-n", "2").ret == 1


SHOW = """
    def test_show(stabgate):
        result = stabgate.measure_k_stability(noisy(0.01), X[:2])
        print("settings", result.runs, result.attributions.provenance["seed"], result.threshold)
"""
MARKED = SHOW.replace("    def test_show", "    @pytest.mark.stabgate(runs=7)\n    def test_show")
WRITTEN = SHOW.replace("X[:2])", "X[:2], runs=5, seed=8)")


@pytest.mark.parametrize(
    ("part", "ini", "flags", "expected"),
    [
        (SHOW, "", [], "settings 50 0 0.9"),
        (SHOW, "stabgate_runs = 11\nstabgate_seed = 4\nstabgate_threshold = 0.5", [], "settings 11 4 0.5"),
        (SHOW, "stabgate_runs = 11", ["--stabgate-runs=12", "--stabgate-seed=3"], "settings 12 3 0.9"),
        (MARKED, "stabgate_runs = 11", ["--stabgate-runs=12"], "settings 7 0 0.9"),
        (WRITTEN, "stabgate_runs = 11", ["--stabgate-runs=12", "--stabgate-threshold=0.8"], "settings 5 8 0.8"),
    ],
)
def test_argument_beats_marker_beats_flag_beats_ini(gates, part, ini, flags, expected):
    result = gates(part, ini=ini).runpytest("-s", *flags)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*{expected}"])


@pytest.mark.parametrize(
    ("flags", "ini", "message"),
    [
        (["--stabgate-runs=1"], "", "--stabgate-runs='1': it must be an integer of at least 2"),
        (["--stabgate-runs=2.5"], "", "--stabgate-runs='2.5': it must be an integer of at least 2"),
        (["--stabgate-seed=-1"], "", "--stabgate-seed='-1': it must be an integer of at least 0"),
        (["--stabgate-threshold=1.5"], "", "--stabgate-threshold='1.5': it must be a number above 0 and at most 1"),
        (["--stabgate-threshold=nan"], "", "--stabgate-threshold='nan'"),
        ([], "stabgate_runs = many", "ini key stabgate_runs='many'"),
        ([], "stabgate_rums = 3", "unknown ini key stabgate_rums; did you mean stabgate_runs?"),
        (["--stabgate-treshold=0.5"], "", "--stabgate-treshold"),
    ],
)
def test_a_wrong_setting_is_a_usage_error_that_names_it(gates, flags, ini, message):
    result = gates(PASSING, ini=ini).runpytest(*flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_a_wrong_marker_setting_fails_and_names_the_nearest(gates):
    part = PASSING.replace("    def test_steady", "    @pytest.mark.stabgate(treshold=0.5)\n    def test_steady")
    result = gates(part).runpytest()
    assert result.ret == 1
    assert "settings.py" not in result.stdout.str()
    assert "unknown setting of the stabgate marker treshold; did you mean threshold?" in result.stdout.str()


def test_the_replay_command_has_what_came_from_outside_and_nothing_else(gates):
    part = FAILING.replace("share=0.9,", "share=0.9, runs=10,")
    part = part.replace("    def test", "    @pytest.mark.stabgate(runs=20)\n    def test")
    result = gates(part).runpytest("--stabgate-seed=3", "--stabgate-threshold=0.95")
    replay = next(line for line in result.outlines if "replay:" in line)
    assert replay.endswith("pytest test_gates.py::test_shaky --stabgate-seed=3 --stabgate-threshold=0.95")


def test_the_header_names_version_and_settings(gates):
    result = gates(PASSING).runpytest("--stabgate-runs=20")
    shown = re.search(r"^stabgate: \d[^ ]*, (.*)$", result.stdout.str(), re.M)
    assert shown is not None
    assert {"runs=20", "seed=0", "threshold=0.9", "inconclusive=fail", "missing=fail"} <= set(shown[1].split(", "))


def test_the_marker_selects_gates(gates):
    result = gates(PASSING, "    def test_other():\n        pass\n").runpytest("-m", "stabgate", "--strict-markers")
    result.assert_outcomes(passed=1, deselected=1)


def test_a_test_that_uses_the_fixture_and_measures_nothing_does_not_pass(gates):
    result = gates("    def test_empty(stabgate):\n        pass\n").runpytest()
    assert result.ret == 1
    assert "without measuring anything" in result.stdout.str()


def test_skipped_and_failing_tests_keep_their_own_reason(gates):
    result = gates(
        "    def test_skip(stabgate):\n        pytest.skip('no data')\n",
        "    def test_broken(stabgate):\n        assert 1 == 2\n",
    ).runpytest()
    result.assert_outcomes(skipped=1, failed=1)


def test_a_gate_that_cannot_be_measured_fails_with_its_reason_and_stands_in_the_table(gates):
    part = """
    def test_raises(stabgate):
        def explain(X, seed):
            raise RuntimeError("no licence")
        stabgate.assert_min_k_stability(sg.explainers.Custom(explain), X, k=2)

    def test_wrong_k(stabgate):
        stabgate.assert_min_k_stability(noisy(0.1), X, k=7)
    """
    result = gates(part).runpytest()
    assert result.ret == 1
    text = result.stdout.str()
    assert "NOT MEASURED: explain: required k >= 2 on 100 % of rows, measured nothing" not in text
    assert "NOT MEASURED: test_raises: required k >= 2 on 100 % of rows, measured nothing" in text
    assert "row 0 not measured: run 0 (seed " in text
    assert "RuntimeError: no licence" in text
    assert "k=7 asks for more than the 3 features there are" in text
    assert "Traceback" not in text
    assert [row[-1] for row in table(result)[1:]] == ["NOT MEASURED", "NOT MEASURED"]


def test_user_properties_are_plain_numbers_in_junit(gates):
    pytester = gates(FAILING)
    pytester.runpytest("--junitxml=out.xml", "--stabgate-early=off")
    found = properties(pytester, "credit/shaky")
    assert found.pop("verdict") == "FAIL"
    numbers = {name: float(value) for name, value in found.items()}
    assert numbers["estimate"] == numbers["met"] == numbers["low"] == 0
    assert 0 < numbers["high"] < 0.5
    assert (numbers["instances"], numbers["measured"], numbers["runs"]) == (6, 6, 50)


def test_without_the_plugin_the_assertions_still_work(gates):
    part = """
    def test_plain():
        sg.assert_min_k_stability(noisy(0.01), X, k=3, runs=20)
        with pytest.raises(AssertionError, match="required k >= 3 on 100 % of rows") as caught:
            sg.assert_min_k_stability(noisy(2.0), X, k=3, runs=20)
        assert caught.value.verdict.outcome == "FAIL"
    """
    pytester = gates(part)
    assert pytester.runpytest("-p", "no:stabgate").ret == 0
    assert pytester.runpytest("-p", "no:stabgate", "--stabgate-runs=3").ret == pytest.ExitCode.USAGE_ERROR


def test_loading_imports_nothing_heavy():
    """Measured as a set of modules, which no machine's speed can change."""
    code = (
        "import sys, pytest_stabgate.plugin, stabgate;"
        "heavy = {'numpy','scipy','pandas','sklearn','joblib','shap','lime','dice_ml','torch','captum','mlflow'};"
        "print(sorted(heavy & set(sys.modules)), sorted(m for m in sys.modules if m.startswith('stabgate')))"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert out.strip() == "[] ['stabgate']"


def test_what_a_test_measured_before_it_failed_is_not_measured(gates):
    """Whether it raised, or the test failed between measuring and judging; a skip is no failure."""
    result = gates(
        """
    def test_raises(stabgate):
        stabgate.measure_k_stability(noisy(0.01), X[:0])

    def test_fails_between(stabgate):
        found = stabgate.measure_k_stability(noisy(0.01), X, runs=5)
        raise RuntimeError("something else")

    def test_skips(stabgate):
        stabgate.measure_k_stability(noisy(0.01), X, runs=5)
        pytest.skip("not today")

    def test_judges(stabgate):
        found = stabgate.measure_k_stability(noisy(0.01), X, runs=20)
        stabgate.assert_min_k_stability(found, k=2, name="judged")
        assert False
""",
    ).runpytest("--stabgate-json=r.json")
    result.assert_outcomes(failed=3, skipped=1)
    text = result.stdout.str()
    assert "NOT MEASURED test_raises: X has no rows" in text
    assert "NOT MEASURED test_fails_between: the test failed before a gate judged what was measured" in text
    assert "3 gates: 2 NOT MEASURED, 1 PASS" in text


def test_a_name_belongs_to_one_gate(gates):
    two = """
    def test_{0}(stabgate):
        stabgate.assert_min_k_stability(noisy(0.01), X, k={0}, runs=20, name="credit/same")
"""
    test = gates(two.format(2), two.format(3))
    for workers in ((), ("-n", "2")):
        result = test.runpytest(*workers)
        assert result.ret == 1
        result.assert_outcomes(passed=2)
        assert re.search(
            r"ERROR: 2 gates of k-stability are called 'credit/same' \(test_gates.py::test_., test_gates.py::test_.\)",
            result.stdout.str(),
        )


def test_what_only_warns_passes_where_warnings_are_errors(gates):
    straddles = """
    def test_straddles(stabgate):
        stabgate.assert_min_k_stability(noisy(0.3), X, k=3, share=0.5, runs=6, early=False, name="credit/near")
"""
    result = gates(straddles).runpytest("-W", "error", "--stabgate-inconclusive=warn")
    assert "INCONCLUSIVE" in result.stdout.str()
    result.assert_outcomes(passed=1, warnings=1)


def test_a_run_that_did_not_finish_is_no_run_that_passed(gates, pytester):
    pytester.makepyfile(
        test_more="""
        import pytest

        def test_before_its_gate(stabgate):
            raise RuntimeError("data file missing")

        @pytest.fixture
        def measured(stabgate):
            import numpy as np
            import stabgate as sg
            stabgate.measure_k_stability(sg.explainers.Random(), np.zeros((2, 3)), runs=5)
            raise RuntimeError("in setup")

        def test_setup(measured, stabgate): ...
        """
    )
    result = gates(PASSING).runpytest("--stabgate-json=r.json", "test_gates.py", "test_more.py")
    assert result.ret == 1
    assert "NOT MEASURED test_setup: the test failed before a gate judged" in result.stdout.str()
    report = SessionReport.load(pytester.path / "r.json")
    assert "test_more.py::test_before_its_gate" in report.unfinished
    assert markdown(report).startswith("## ❌ stabgate: ")
    assert "The run did not finish: failed, and gates further down" in markdown(report)
    assert 'name="the run finished"' in junit(report)
    assert "The run did not finish: " in render_html(report)


def test_a_measurement_that_failed_and_was_swallowed_is_none(gates):
    swallowed = """
    def test_swallows(stabgate):
        with pytest.raises(sg.InputError):
            stabgate.measure_k_stability(noisy(0.01), X[:0])
"""
    result = gates(swallowed).runpytest()
    assert result.ret == 1
    assert "the test passed without measuring anything through its stabgate fixture" in result.stdout.str()


def test_two_documents_need_two_files(gates):
    result = gates(PASSING).runpytest("--stabgate-json=one", "--stabgate-html=one")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--stabgate-html and --stabgate-json both name" in result.stderr.str()
