"""A session of measured gates, one of each outcome that a page shows apart, on columns with hostile names."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import stabgate as sg
from stabgate.gate import Judged, judge_min_k_stability
from stabgate.gate_fass import judge_min_fass
from stabgate.gate_regression import judge_no_regression
from stabgate.report.evidence import save_evidence, with_details
from stabgate.report.session import GateReport, SessionReport, environment, ordered

sys.path.insert(0, str(Path(__file__).parents[1] / "measure"))
from fass_cases import photos, small_network

SCRIPT = "</script><script>window.hacked = true</script>"
HOSTILE = (SCRIPT, "x" * 300, "مرحبا بالعالم", "🦊 <b>bold</b>&amp;", "%{x} $a$", "age")
MEANS = np.array([3.0, 2.6, 2.2, 1.8, 1.4, 1.0])


def noisy(spread: float, name: str = "") -> sg.explainers.Custom:
    """Attributions around MEANS; rows vary more the larger their first value is."""

    def explain(X, seed):
        noise = np.random.default_rng(seed).normal(size=6)
        return MEANS + spread * (0.2 + float(np.asarray(X)[0, 0])) * noise

    return sg.explainers.Custom(explain, name=name or f"noise {spread}")


def rows(n: int = 10) -> pd.DataFrame:
    values = np.zeros((n, 6))
    values[:, 0] = np.linspace(0, 2, n)
    return pd.DataFrame(values, columns=HOSTILE)


def reported(name: str, judged: Judged, folder: Path, kind: str = "k-stability", **more) -> GateReport:
    gate = GateReport(name, kind, str(judged.verdict.requirement), f"tests/test_x.py::{name}", judged.verdict, **more)
    return save_evidence(replace(gate, message=judged.message), judged.result, str(folder))


@functools.cache
def session(folder: Path) -> SessionReport:
    """Five gates: one fails, one fell below its baseline, one has no verdict, two pass."""
    one, other = (sg.measure_k_stability(noisy(spread), rows(), runs=20) for spread in (0.15, 0.01))
    shaky = judge_min_k_stability(one, k=4, share=0.9, name="credit/lime")
    steady = judge_min_k_stability(other, k=3, name="steady")
    before = sg.measure_k_stability(noisy(0.01, name="noise 0.15"), rows(), runs=20)
    fell = judge_no_regression(one, before, max_drop=0.1, name="credit/drop")
    maps = judge_min_fass(
        sg.explainers.Captum(small_network(), method="saliency"), photos(6), score=0.2, perturbations="mild"
    )
    gates = [
        reported("credit/lime", shaky, folder, place=("tests/test_x.py", 12)),
        reported(f"steady {SCRIPT}", steady, folder),
        reported("credit/drop", fell, folder, "regression", before=fell.before.to_json(), baseline="credit/drop"),
        reported("tiny/saliency", maps, folder, "FASS"),
        GateReport(
            "broken", "k-stability", "k >= 3", "tests/t.py::t", None, message="InputError: <img src=x onerror=1>"
        ),
    ]
    made = {"created": "2026-11-30T09:00:00+00:00", "settings": {"runs": 20, "seed": 0}, "environment": environment()}
    return SessionReport(ordered(with_details(gates)), complete=False, incomplete_because="1 test deselected", **made)
