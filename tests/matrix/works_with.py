"""Which explainer works on which kind of model: the table that the matrix test checks and the docs show.

`docs/make_tables.py` reads it. A pair that is not in `SUPPORTED` is refused with an InputError.
"""

from __future__ import annotations

TREES = (
    "scikit-learn forest, two classes",
    "scikit-learn forest, text labels",
    "scikit-learn forest, boolean labels",
    "scikit-learn forest, labels 3 and 7",
    "scikit-learn forest, three classes",
    "scikit-learn forest, regression",
    "XGBoost classifier",
    "XGBoost Booster",
    "LightGBM classifier",
    "LightGBM Booster",
    "CatBoost classifier",
)
LINEAR = (
    "logistic regression, two classes",
    "logistic regression, three classes",
    "ridge regression",
    "LinearSVC (decision function only)",
)
TORCH = ("torch module, (n,)", "torch module, (n, 1)", "torch module, (n, 2)", "torch module, (n, 3)")
ANY = (
    "Pipeline with ColumnTransformer, mixed DataFrame",
    "MLflow pyfunc",
    "function, (n,)",
    "function, (n, 1)",
    "function, (n, 2)",
)
KINDS = TREES + LINEAR + ANY + TORCH

# What the kinds are good for beyond "asked for outputs".
SUPPORTED: dict[str, tuple[str, ...]] = {
    "Shap kernel": KINDS,
    "Shap permutation": KINDS,
    "Shap sampling": KINDS,
    "Shap exact": KINDS,
    "Shap tree, path-dependent": TREES,
    "Shap tree, interventional": TREES,
    "Shap linear": LINEAR,
    "Shap gradient": TORCH,
    "Shap deep": TORCH,
    "Lime": KINDS,
    "Dice random": KINDS,
    "Dice genetic": KINDS,
    "Dice kdtree": KINDS,
    "Captum integrated-gradients": TORCH,
    "Captum gradient-shap": TORCH,
    "Captum saliency": TORCH,
    "Captum input-x-gradient": TORCH,
    "Captum deeplift": TORCH,
    "Captum kernel-shap": TORCH,
    "Captum shapley-sampling": TORCH,
    "Captum lime": TORCH,
    "Captum integrated-gradients + NoiseTunnel": TORCH,
    "Random": KINDS,
    "Custom": KINDS,
}
EXPLAINERS = tuple(SUPPORTED)

NOTES = (
    "Every cell is a test: `yes` equals a direct call of the package, row by row and seed by seed; `-` is refused with "
    "a message that says what to use instead.",
    "Dice asks a regression, and any single output that is no probability, for `desired_range=(low, high)`.",
    "Shap tree explains the raw output of boosted trees (log-odds), Shap linear the decision function.",
    "Kinds of tables (missing values, categories, sparse matrices, ...) are in `tests/test_inputs.py`.",
)


def markdown() -> str:
    """The page of the docs."""
    head = "| model | " + " | ".join(EXPLAINERS) + " |"
    lines = ["# What works with what", "", *(f"- {note}" for note in NOTES), ""]
    lines += [head, "|---" * (len(EXPLAINERS) + 1) + "|"]
    for kind in KINDS:
        cells = ("yes" if kind in SUPPORTED[explainer] else "-" for explainer in EXPLAINERS)
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
