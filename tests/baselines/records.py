"""Records by hand, for files and comparisons."""

from __future__ import annotations

from dataclasses import replace

from stabgate.measure.record import FASS, K, PairRecord, Record, RowRecord

FEATURES = ("age", "<b>income</b>", "tenure größe", "x" * 300)


def row(i: int, k: int = 2, halves: tuple[int, ...] = (20, 80)) -> RowRecord:
    return RowRecord(f"row {i}", f"{i:016x}", "good", k, halves, (FEATURES[2], FEATURES[0]))


def of_k(rows: int = 3, **changes) -> Record:
    record = Record(
        metric=K,
        runs=20,
        seed=0,
        settings={"threshold": 0.9, "rule": "all-pairs", "bandwidth": [0.1, 0.2], "odd": "NaN"},
        explainer={"explainer": "lime", "settings": {"kernel_width": 1.8371173070873834}, "package": {"lime": "0.2"}},
        model="Forest",
        model_hash="d75c",
        columns_hash=None,
        versions={"numpy": "2.4"},
        rows=tuple(sorted((row(i) for i in range(rows)), key=lambda r: r.id)),
        features=FEATURES,
    )
    return replace(record, **changes)


def of_fass(**changes) -> Record:
    pairs = [
        PairRecord("cat", "aa", "noise σ 0.1", 0, "retained", 0.123457),
        PairRecord("cat", "aa", "noise σ 0.1", 1, "prediction changed", None),
        PairRecord("cat", "aa", "odd #3", 0, "retained", 1.0),
        PairRecord("dog", "bb", "noise σ 0.1", 0, "no signal", None),
    ]
    record = Record(
        metric=FASS,
        runs=1,
        seed=3,
        settings={"protocol": "aligned", "weights": [1 / 3, 1 / 3, 1 / 3], "shape": [3, 32, 32]},
        explainer={"explainer": "captum.saliency", "settings": {}},
        model="Net",
        model_hash=None,
        columns_hash=None,
        versions={},
        pairs=tuple(pairs),
        population=True,
    )
    return replace(record, **changes)
