"""Other numbers of threads and processes, another BLAS kernel, another set of CPU instructions: the same verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

MEASURE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import stabgate as sg
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from stabgate.gate import judge_min_k_stability
from stabgate.report.session import verdict_to_json

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :10]
model = LogisticRegression(max_iter=10).fit(X, y)
# Training is not what is compared: the same model everywhere.
model.coef_ = np.array([[2, -1, 0.5, 1.5, 0.2, -0.3, 0.8, 1, -0.6, 0.1]]) / np.asarray(X.std()).round(3)
model.intercept_ = -np.asarray(X.mean()).round(3) @ model.coef_.T
explainer = sg.explainers.Lime(model, background=X, num_samples=300, discretize_continuous=False)
result = sg.measure_k_stability(explainer, X[:4], runs=12, n_jobs=int(sys.argv[1]), cache=False)
judged = judge_min_k_stability(result, k=3, share=0.7, name="gate")
print(json.dumps({
    "values": result.attributions.values.tolist(),
    "distances": result.distances.tolist(),
    "k": result.k.tolist(),
    "halves": result.half_k.tolist(),
    "verdict": {**verdict_to_json(judged.verdict), "cost": None},
}))
"""


def measured(jobs, **environment):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(jobs)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def threads(n):
    return dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(n))


@pytest.fixture(scope="module")
def reference():
    return measured(1, **threads(1))


@pytest.mark.parametrize(
    ("jobs", "environment"),
    [
        (2, threads(2)),
        (1, {**threads(2), "OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"}),
    ],
    ids=["threads and processes", "an older CPU"],
)
def test_values_agree_to_1e_9_and_verdicts_are_the_same(reference, jobs, environment):
    found = measured(jobs, **environment)
    for name in ("values", "distances"):
        scale = np.abs(reference[name]).max()
        np.testing.assert_allclose(found[name], reference[name], rtol=0, atol=1e-9 * scale)
    assert found["k"] == reference["k"]
    assert found["halves"] == reference["halves"]
    verdict, expected = found.pop("verdict"), reference["verdict"]
    assert verdict == expected
