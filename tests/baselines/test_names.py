"""What a baseline may be called."""

from __future__ import annotations

import random

import pytest

import stabgate as sg
from stabgate.baselines.names import check_name, safe_name

WRONG = [
    ("", "it is empty"),
    ("a b", "it has ' '"),
    ("prüfung", "it has 'ü'"),
    ("a\\b", "a backslash"),
    ("/a", "starts or ends with a slash"),
    ("a/", "starts or ends with a slash"),
    ("a//b", "two in a row"),
    ("../a", "'..' starts with '.'"),
    ("a/.b", "'.b' starts with '.'"),
    ("-a", "'-a' starts with '-'"),
    ("a.", "ends with a dot"),
    ("a/con", "'con' is a device on Windows"),
    ("NUL.txt/a", "'NUL.txt' is a device on Windows"),
    ("com1.v2", "is a device on Windows"),
    ("a.json", "ends like a file"),
    ("a.json/b", "ends like a file"),
    ("a.NPZ", "ends like a file"),
    ("y.partial/b", "ends like a file"),
    ("Waivers", "Waivers.json is another file"),
    ("x" * 101, "it has 101 characters"),
    ("tests/test_a.py::test[1]", "it has ':'"),
]


@pytest.mark.parametrize("name", ["a", "credit/shap", "A-1_b.c", "waivers/a", "console", "0", "x" * 100, "a/b/c/d"])
def test_names_that_every_file_system_takes(name):
    assert check_name(name) == name


@pytest.mark.parametrize(("name", "why"), WRONG)
def test_other_names_are_refused_with_the_reason_and_one_that_is_safe(name, why):
    with pytest.raises(sg.InputError) as caught:
        check_name(name)
    text = str(caught.value)
    assert why in text
    suggested = text.rsplit("try name='", 1)[1].removesuffix("'")
    assert check_name(suggested) == suggested


def test_a_name_is_a_text():
    with pytest.raises(sg.InputError, match="name=3: the name of a baseline is a text"):
        check_name(3)


def test_whatever_is_made_safe_is_safe():
    draw = random.Random(0)
    pieces = ["con", ".", "-", "/", "a", ".json", ".npz", "nul", " ", "ß", "aux", "\\", "waivers", "x" * 30, "::", "日"]
    for _ in range(20_000):
        text = "".join(draw.choice(pieces) for _ in range(draw.randint(0, 20)))
        check_name(safe_name(text))
    assert safe_name("tests/test_credit.py::test_shap[a b]") == "tests/test_credit.py/test_shap-a-b"
