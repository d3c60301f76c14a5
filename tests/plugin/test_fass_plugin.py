"""Gates of image explanations through pytest itself: seed, table, messages, exit codes, xdist."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree

import hypothesis.internal.observability  # noqa: F401  # slow to load, and wanted by its plugin in every run
import numpy as np
import pandas as pd  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import torch

# In-process pytest runs forget modules that they import first, and NumPy and torch cannot be loaded twice.
import pytest_stabgate.fixture  # noqa: F401
import stabgate.explainers.images
import stabgate.image_network
import stabgate.report.terminal  # noqa: F401
from stabgate.baselines.store import Baselines

torch.set_num_threads(1)

GATE = """
    import pytest
    import torch
    from stabgate.explainers.images import ImageExplainer

    torch.set_num_threads(1)

    def photos(n):
        return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def model(images):
        return torch.tensor([[0.0, 1.0]]).expand(len(images), 2)

    class Content(ImageExplainer):
        name = "content"
        needs_module = False
        def settings(self):
            return {}
        def attributions(self, images, targets, seeds, segments, design):
            return images

    class Fails(Content):
        name = "fails"
        def attributions(self, images, targets, seeds, segments, design):
            raise RuntimeError("no licence")
"""
PASSING = """
    def test_steady(stabgate):
        verdict = stabgate.assert_min_fass(Content(model), photos(6), score=0.3)
        assert verdict.passed
"""
FAILING = """
    def test_shaky(stabgate):
        stabgate.assert_min_fass(Content(model), photos(6), score=0.99, geometric=0.9, name="photos/shaky")
"""
TOO_FEW = """
    def test_few(stabgate):
        stabgate.assert_min_fass(Content(model), photos(3), score=0.1, perturbations="rotation")
"""
DROP = """
    import os

    class Worn(Content):
        def attributions(self, images, targets, seeds, segments, design):
            noise = [torch.rand(images[0].shape, generator=torch.Generator().manual_seed(int(s))) for s in seeds]
            return images if os.environ["WORN"] == "0" else torch.stack(noise)

    def test_drop(stabgate):
        explainer = Worn(model)
        stabgate.assert_no_regression(
            explainer, images=photos(6), perturbations="mild", max_drop=0.05, name="photos/content"
        )
"""
RANKS = """
    import numpy as np
    import stabgate as sg

    def test_ranks(stabgate):
        explain = lambda X, seed: np.array([3.0, 2.0, 1.0]) + 0.01 * np.random.default_rng(seed).normal(size=3)
        stabgate.assert_min_k_stability(sg.explainers.Custom(explain), np.zeros((4, 3)), k=3)
"""


@pytest.fixture
def gates(pytester: pytest.Pytester):
    def write(*parts: str):
        pytester.makepyfile(test_gates="\n".join([GATE, *parts]))
        return pytester

    return write


def section(result: pytest.RunResult) -> list[str]:
    """Lines of the summary tables; seconds of k gates differ from run to run and go."""
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("gate  "))
    end = next(i for i, line in enumerate(lines) if re.match(r"\d+ gates?: ", line))
    return [re.sub(r"(?<!>= )\b\d+\.\d  (?=PASS)", "", line).rstrip() for line in lines[start : end - 1]]


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_a_met_requirement_passes_and_stands_in_the_papers_layout(gates):
    result = gates(PASSING).runpytest("-p", "no:cacheprovider")
    assert result.ret == 0
    headings, whole, *families = section(result)
    assert cells(headings)[2:8] == ["perturbations", "SSIM", "Spn.", "Jac.", "FASS", "retention"]
    row = cells(whole)
    assert row[:3] == ["test_steady", "content", "all"]
    numbers = [float(cell) for cell in row[3:7]]
    assert numbers[3] == pytest.approx(sum(numbers[:3]) / 3, abs=1.1e-3)
    assert row[7] == "100.0 %"
    assert row[9:] == ["1.000", "FASS >= 0.3", "PASS"]
    assert [cells(line)[:2] for line in families] == [
        ["content", family] for family in ("geometric", "photometric", "compression")
    ]


def test_an_unmet_requirement_fails_with_the_reason_first_and_the_command_that_replays_it(gates):
    result = gates(PASSING, FAILING).runpytest("--stabgate-seed=3")
    assert result.ret == 1
    first = next(line for line in result.outlines if line.startswith("E  "))
    assert "FAIL: photos/shaky: required FASS >= 0.99, geometric >= 0.9, measured 0." in first
    text = result.stdout.str()
    assert "floor (another image's map) 0." in text
    assert re.search(r"image \d, rotation 15°: FASS 0\.\d+, .* fell from 1\.000 to", text)
    assert "replay: pytest test_gates.py::test_shaky --stabgate-seed=3" in text
    assert [cells(line)[0] for line in section(result) if "all" in cells(line)] == ["photos/shaky", "test_steady"]
    assert "gate_fass.py" not in text
    assert "measuring.py" not in text


def test_below_the_minimum_is_not_measured_and_fails_also_under_xdist(gates):
    pytester = gates(TOO_FEW)
    serial, spread = pytester.runpytest(), pytester.runpytest("-n", "2")
    assert serial.ret == spread.ret == 1
    for result in (serial, spread):
        assert "NOT MEASURED: test_few: required FASS >= 0.1" in result.stdout.str()
        assert "3 of 3 pairs retained" in result.stdout.str()
        assert cells(section(result)[1])[-1] == "NOT MEASURED"


def test_two_workers_give_the_same_tables_and_exit_code(gates):
    pytester = gates(PASSING, FAILING, TOO_FEW, RANKS)
    serial, spread = pytester.runpytest(), pytester.runpytest("-n", "2")
    assert serial.ret == spread.ret == 1
    assert section(serial) == section(spread)
    assert cells(section(serial)[0])[:4] == ["gate", "explainer", "k (median)", "rows that meet"]
    assert cells(section(serial)[1])[0] == "test_ranks"
    assert section(serial)[2] == ""


def test_the_seed_of_the_run_is_the_seed_of_the_measurement(gates):
    part = """
    def test_show(stabgate):
        result = stabgate.measure_fass(Content(model), photos(2), perturbations="noise")
        own = stabgate.measure_fass(Content(model), photos(2), perturbations="noise", seed=9)
        print("seeds", result.provenance["seed"], own.provenance["seed"])
    """
    result = gates(part).runpytest("-s", "--stabgate-seed=4")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*seeds 4 9*"])


def test_what_cannot_be_measured_fails_and_stands_in_the_table(gates):
    part = """
    def test_raises(stabgate):
        stabgate.assert_min_fass(Fails(model), photos(6), score=0.1, perturbations="noise")

    def test_bytes(stabgate):
        stabgate.assert_min_fass(Content(model), photos(6) * 255, score=0.1)
    """
    result = gates(part).runpytest()
    assert result.ret == 1
    text = result.stdout.str()
    assert "error: original: ExplainerError: fails: RuntimeError: no licence" in text
    assert "divide by 255" in text
    assert "Traceback" not in text
    rows = [cells(line) for line in section(result)[1:]]
    assert [row[0] for row in rows] == ["test_bytes", "test_raises"]
    assert {row[-1] for row in rows} == {"NOT MEASURED"}


def test_a_result_in_which_nothing_was_measured_does_not_pass_unjudged(gates):
    part = """
    import numpy as np
    import stabgate as sg
    from stabgate.errors import StabilityError

    def test_unjudged(stabgate):
        assert stabgate.measure_fass(Fails(model), photos(2), perturbations="noise").score is None

    def test_judged(stabgate):
        result = stabgate.measure_fass({"a": Fails(model)}, photos(2), perturbations="noise")
        with pytest.raises(StabilityError):
            stabgate.assert_min_fass(result["a"], score=0.1)

    def test_rows(stabgate):
        def explain(X, seed):
            raise RuntimeError("no licence")
        stabgate.measure_k_stability(sg.explainers.Custom(explain), np.zeros((4, 3)), runs=2)
    """
    result = gates(part).runpytest()
    result.assert_outcomes(passed=3, errors=2)
    text = result.stdout.str()
    assert "nothing was measured: no pair has a score; the first: error (original: ExplainerError: fails" in text
    assert "nothing was measured: no row could be explained" in text


def test_user_properties_are_plain_numbers_in_junit(gates):
    pytester = gates(FAILING)
    result = pytester.runpytest("--junitxml=out.xml")
    found = xml.etree.ElementTree.parse(pytester.path / "out.xml").iter("property")
    values = {one.get("name", "").removeprefix("stabgate.photos/shaky."): one.get("value", "") for one in found}
    assert values.pop("verdict") == "FAIL"
    numbers = {name: float(value) for name, value in values.items()}
    assert numbers["low"] < numbers["estimate"] < numbers["high"] < 0.99
    assert numbers["instances"] == numbers["measured"] == 30
    whole = next(line for line in section(result) if cells(line)[0] == "photos/shaky")
    assert f"{numbers['estimate']:.3f}" in cells(whole)


def test_a_baseline_of_maps_is_written_compared_with_and_has_its_maps_beside_it(gates, pytester, monkeypatch):
    test = gates(DROP)
    monkeypatch.setenv("WORN", "0")
    missing = test.runpytest()
    assert missing.ret == 1
    assert "create it with: pytest test_gates.py::test_drop --stabgate-update-new" in missing.stdout.str()
    assert test.runpytest("--stabgate-update-new").ret == 0
    folder = pytester.path / "stabgate-baselines" / "photos"
    record = Baselines(folder.parent).read("photos/content").record
    with np.load(folder / "content.npz") as maps:
        worst = min(pair.score for pair in record.pairs if pair.score is not None)
        assert maps["fass"].min() == pytest.approx(worst, abs=1e-6)
        assert maps["before"].shape == maps["after"].shape == (len(maps["image"]), 32, 32)
        assert set(maps["perturbation"]) == {pair.perturbation for pair in record.pairs}
    same = test.runpytest("--stabgate-json=r.json")
    assert same.ret == 0
    [found] = json.loads((pytester.path / "r.json").read_text())["gates"]
    assert found["verdict"]["estimate"] == 0.0
    budget = test.runpytest("--stabgate-budget=1h")
    assert budget.ret == 0
    assert "gate photos/content: the budget of 1h is for gates of k" in budget.stdout.str()
    monkeypatch.setenv("WORN", "1")
    worse = test.runpytest()
    assert worse.ret == 1
    assert "FAIL photos/content: FASS fell by" in worse.stdout.str()
    assert Baselines(folder.parent).read("photos/content").record == record
