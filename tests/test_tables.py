"""Tables: rows in every container that users have become floats and come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stabgate.errors import InputError
from stabgate.tables import Table, as_rows, row_ids, take_rows

pd = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")

FINITE = st.floats(-1e12, 1e12, allow_nan=False)


@given(arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.one_of(FINITE, st.just(np.nan))))
def test_float_arrays_are_taken_as_they_are(data):
    table = Table.of(data)
    assert table.features == tuple(f"x{j}" for j in range(data.shape[1]))
    np.testing.assert_array_equal(table.encode(data), data)
    np.testing.assert_array_equal(table.decode(table.encode(data)), data)
    assert table.nominal == ()


def columns(n):
    """One column of each kind that comes back unchanged, as (dtype or None, values)."""
    texts = st.sampled_from(["red", "green", "blue", "ü"])
    stamps = st.integers(-(2**33), 2**33).map(lambda t: pd.Timestamp(t, unit="s"))

    def of(values, dtype):
        return st.lists(values, min_size=n, max_size=n).map(lambda v: pd.Series(v, dtype=dtype))

    return st.one_of(
        of(FINITE, "float64"),
        of(st.integers(-(2**40), 2**40), "int64"),
        of(st.integers(0, 255), "uint8"),
        of(st.one_of(st.integers(-99, 99), st.none()), "Int64"),
        of(st.one_of(st.booleans(), st.none()), "boolean"),
        of(st.booleans(), "bool"),
        of(texts, "object"),
        of(st.one_of(texts, st.none()), "string"),
        of(texts, "category"),
        of(st.one_of(texts, st.none()), pd.CategoricalDtype(["blue", "red", "green", "ü"], ordered=True)),
        of(st.integers(0, 3), "category"),
        of(st.one_of(stamps, st.none()), "datetime64[us]"),
        of(
            stamps.map(lambda t: t.tz_localize("Europe/Berlin", ambiguous=True, nonexistent="shift_forward")),
            None,
        ),
    )


frames = (
    st.integers(1, 5)
    .flatmap(lambda n: st.lists(columns(n), min_size=1, max_size=5))
    .map(lambda parts: pd.concat(parts, axis=1, keys=[f"column {j}" for j in range(len(parts))]))
)


@settings(deadline=None, max_examples=60)
@given(frames)
def test_frames_come_back_with_their_types(frame):
    table = Table.of(frame)
    encoded = table.encode(frame)
    assert encoded.shape == frame.shape
    assert encoded.dtype == np.float64
    np.testing.assert_array_equal(np.isnan(encoded), frame.isna().to_numpy())
    # A column without a single value says nothing about its type.
    kept = [c for c in frame.columns if frame[c].dtype != object or frame[c].notna().any()]
    pd.testing.assert_frame_equal(table.decode(encoded)[kept], frame.reset_index(drop=True)[kept], check_freq=False)


def test_kinds_and_codes():
    frame = pd.DataFrame(
        {
            "age": [30, 40],
            "member": [True, False],
            "town": ["Ulm", "Bern"],
            "since": pd.to_datetime(["1970-01-01T00:00:01", "1969-12-31T23:59:59"]),
        }
    )
    table = Table.of(frame)
    assert [column.kind for column in table.columns] == ["number", "boolean", "category", "datetime"]
    assert table.nominal == (1, 2)
    expected = [[30, 1, 1, 1e6], [40, 0, 0, -1e6]]  # levels of strings are sorted; datetimes in microseconds
    np.testing.assert_array_equal(table.encode(frame), expected)


def test_columns_may_come_in_another_order_and_must_be_the_same():
    frame = pd.DataFrame({"age": [1.0, 2.0], "income": [3.0, 4.0], "debt": [5.0, 6.0]})
    table = Table.of(frame)
    np.testing.assert_array_equal(table.encode(frame[["debt", "age", "income"]]), frame.to_numpy())
    with pytest.raises(
        InputError, match=r"lacks column 'income' and has unknown column 'incom' \(did you mean 'income'"
    ):
        table.encode(frame.rename(columns={"income": "incom"}))
    with pytest.raises(InputError, match="lacks columns 'age', 'debt'"):
        table.encode(frame[["income"]])
    with pytest.raises(InputError, match="X is an array and the background is a DataFrame"):
        table.encode(frame.to_numpy())
    with pytest.raises(InputError, match="X has 2 columns, the background has 3"):
        Table.of(frame.to_numpy()).encode(frame.to_numpy()[:, :2])


def test_new_levels_are_appended():
    background = pd.DataFrame({"town": ["Ulm", "Bern", "Ulm"]})
    rows = pd.DataFrame({"town": ["Graz", "Bern"]})
    table = Table.of(background)
    with pytest.raises(InputError, match="'town' holds the level 'Graz'; known are 'Bern', 'Ulm'"):
        table.encode(rows)
    wider = table.including(rows)
    np.testing.assert_array_equal(wider.encode(background), table.encode(background))
    np.testing.assert_array_equal(wider.encode(rows), [[2.0], [0.0]])
    assert wider.decode(wider.encode(rows))["town"].tolist() == ["Graz", "Bern"]
    categories = Table.of(background.astype("category")).including(rows.astype("category"))
    assert categories.decode(np.array([[2.0], [1.0]]))["town"].tolist() == ["Graz", "Ulm"]


def test_another_kind_of_column_is_refused():
    table = Table.of(pd.DataFrame({"age": [1.0, 2.0]}))
    with pytest.raises(InputError, match="column 'age' holds category values, the background holds number"):
        table.including(pd.DataFrame({"age": ["old"]}))


@pytest.mark.parametrize("dtype", ["int64", "Int64"])
def test_values_between_whole_numbers_are_not_cut_off(dtype):
    """LIME samples between the levels of an integer column; the model must see what LIME reckons with."""
    table = Table.of(pd.DataFrame({"rooms": pd.Series([1, 2, 3], dtype=dtype)}))
    assert table.decode(np.array([[1.5], [2.0]]))["rooms"].tolist() == [1.5, 2.0]
    assert table.decode(np.array([[1.0], [2.0]]))["rooms"].dtype == dtype


def test_object_arrays_keep_their_values():
    data = np.array([[1, "a", True, None], [2.5, "b", False, 3]], dtype=object)
    table = Table.of(data)
    assert [column.kind for column in table.columns] == ["number", "category", "boolean", "number"]
    decoded = table.decode(table.encode(data))
    assert decoded.dtype == object
    assert decoded[:, :3].tolist() == data[:, :3].tolist()
    assert np.isnan(decoded[0, 3])
    assert decoded[1, 3] == 3


def test_sparse_rows_come_back_sparse():
    data = sparse.random(5, 4, density=0.4, random_state=0, format="csc")
    table = Table.of(data)
    np.testing.assert_array_equal(table.encode(data), data.toarray())
    decoded = table.decode(data.toarray())
    assert sparse.issparse(decoded)
    np.testing.assert_array_equal(decoded.toarray(), data.toarray())
    assert row_ids(data) == (0, 1, 2, 3, 4)


def test_one_row_and_row_ids():
    frame = pd.DataFrame({"age": [1.0, 2.0], "town": ["A", "B"]}, index=["first", "second"])
    series = frame.iloc[1]
    assert as_rows(series).shape == (1, 2)
    assert row_ids(series) == ("second",)
    np.testing.assert_array_equal(Table.of(frame).encode(series), [[2.0, 1.0]])
    assert row_ids(frame) == ("first", "second")
    assert row_ids(frame.set_index(pd.Index([7, 9]))) == (7, 9)
    assert take_rows(frame, [1]).index.tolist() == ["second"]
    np.testing.assert_array_equal(take_rows(frame.to_numpy(), [1, 0])[:, 0], [2.0, 1.0])
    with pytest.raises(InputError, match="row id 5 occurs 2 times"):
        row_ids(frame.set_index(pd.Index([5, 5])))


def test_column_names_that_are_not_text():
    frame = pd.DataFrame([[1.0, 2.0]], columns=[0, ("a", 1)])
    table = Table.of(frame)
    assert table.features == ("0", "('a', 1)")
    assert table.decode(table.encode(frame)).columns.tolist() == [0, ("a", 1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(3), r"1 dimension, a table has 2.*X\[:1\]"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.zeros((0, 3)), "no rows"),
        (np.zeros((3, 0)), "no columns"),
        (pd.DataFrame({"a": []}), "no rows"),
        ([[1.0, 2.0], [3.0]], "not a table|dimension"),
        (np.zeros((2, 2), dtype=complex), "complex"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occurs 2 times"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "'1' occurs 2 times"),
        (pd.DataFrame({"a": [1j]}), "complex"),
        (pd.DataFrame({"a": [[1], [2]]}), "'a' holds values that are not plain"),
        (pd.DataFrame({"a": pd.to_timedelta([1], unit="s")}), "'a' has dtype"),
    ],
    ids=str,
)
def test_data_that_is_no_table(data, message):
    with pytest.raises(InputError, match=message):
        Table.of(data)


def test_infinite_values_are_named():
    frame = pd.DataFrame({"age": [1.0, np.inf]}, index=["a", "b"])
    with pytest.raises(InputError, match="column 'age' holds an infinite value in row 'b'"):
        Table.of(frame).encode(frame)


def test_integers_that_floats_round_are_refused():
    frame = pd.DataFrame({"id": [2**60 + 1]})
    with pytest.raises(InputError, match=r"'id' holds integers beyond 2\^53"):
        Table.of(frame).encode(frame)
