"""Waivers: what can be one, how they are kept, when they end."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

import stabgate as sg
from stabgate.baselines.folder import project_folder
from stabgate.baselines.waivers import add_waiver, read_waivers
from stabgate.cli import main

SOON = (date.today() + timedelta(days=30)).isoformat()


def test_a_waiver_ends_after_its_day(tmp_path):
    waiver = add_waiver(tmp_path, "credit/shap", until="2999-12-31", reason="known\n  since   May", by="Ada")
    assert waiver.active(date(2999, 12, 31))
    assert not waiver.active(date(3000, 1, 1))
    assert str(waiver) == "until 2999-12-31: known since May"
    assert read_waivers(tmp_path) == {"credit/shap": waiver}
    assert read_waivers(tmp_path / "nowhere") == {}


def test_waivers_are_sorted_one_a_line_and_replaced_by_name(tmp_path):
    for name, reason in (("b", "1"), ("test_x[größe] (2)", "2"), ("a", "3"), ("b", "4")):
        add_waiver(tmp_path, name, until=SOON, reason=reason, by="Ada")
    text = (tmp_path / "waivers.json").read_text(encoding="utf-8")
    assert [line.split(":")[0].strip(' "') for line in text.splitlines()[3:6]] == ["a", "b", "test_x[größe] (2)"]
    assert read_waivers(tmp_path)["b"].reason == "4"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"until": "2026-1-1"}, "until='2026-1-1' is not a date; write it as 2026-12-31"),
        ({"until": "2026-02-30"}, "until='2026-02-30' is not a date"),
        ({"until": "20991231"}, "is not a date"),
        ({"until": "next week"}, "is not a date"),
        ({"until": (date.today() - timedelta(days=1)).isoformat()}, "is past .today is "),
        ({"reason": " "}, "reason is missing"),
        ({"name": " "}, "the name of the gate is empty"),
    ],
)
def test_what_cannot_be_a_waiver(tmp_path, change, message):
    options = {"name": "a", "until": SOON, "reason": "x", "by": "Ada"} | change
    with pytest.raises(sg.InputError, match=message):
        add_waiver(tmp_path, options.pop("name"), **options)
    assert not (tmp_path / "waivers.json").exists()


def test_today_is_still_waived(tmp_path):
    assert add_waiver(tmp_path, "a", until=date.today().isoformat(), reason="x", by="y").active()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "not waivers of schema 1"),
        ('{"schema": 2, "waivers": {}}', "not waivers of schema 1"),
        ('{"schema": 1, "waivers": {"a": 3}}', "'a': an object with by, reason, until is needed"),
        ('{"schema": 1, "waivers": {"a": {"until": "2026-01-01", "by": "x"}}}', "'a': reason is missing"),
        ('{"schema": 1, "waivers": {"a": {"until": "soon", "by": "x", "reason": "y"}}}', "'a': until='soon' is not"),
        ('{"schema": 1, "waivers": {"a": {"untill": "soon"}}}', "unknown field 'untill'"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, text, message):
    (tmp_path / "waivers.json").write_text(text)
    with pytest.raises(sg.InputError) as caught:
        read_waivers(tmp_path)
    assert "waivers.json: " in str(caught.value)
    assert message in str(caught.value)


def test_the_command_says_what_it_wrote_or_what_is_wrong(tmp_path, capsys):
    folder = str(tmp_path / "kept")
    assert main(["waive", "credit/shap", "--until", SOON, "--reason", "known", "--baselines", folder]) == 0
    assert f"credit/shap is waived until {SOON}: known" in capsys.readouterr().out
    kept = json.loads((tmp_path / "kept/waivers.json").read_text())["waivers"]["credit/shap"]
    assert kept["until"] == SOON
    assert kept["by"]
    assert main(["waive", "credit/shap", "--until", "2020-01-01", "--reason", "known", "--baselines", folder]) == 2
    assert "is past" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["waive", "credit/shap", "--until", SOON])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest.ini", "[pytest]\nstabgate_baselines = kept/here\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\nstabgate_baselines = "kept/here"\n'),
        ("pyproject.toml", '[tool.stabgate]\nbaselines = "kept/here"\n'),
        ("setup.cfg", "[tool:pytest]\nstabgate_baselines = kept/here\n"),
    ],
)
def test_the_command_writes_where_the_project_keeps_its_baselines(file, text, tmp_path, monkeypatch, capsys):
    (tmp_path / file).write_text(text)
    inside = tmp_path / "tests"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert main(["waive", "credit/shap", "--until", "2999-12-31", "--reason", "known"]) == 0
    assert list(read_waivers(tmp_path / "kept" / "here")) == ["credit/shap"]
    assert str(tmp_path / "kept" / "here" / "waivers.json") in capsys.readouterr().out


def test_the_folder_of_a_project_is_found_from_within_it(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    inside = tmp_path / "tests" / "deep"
    inside.mkdir(parents=True)
    assert project_folder(inside) == inside / "stabgate-baselines"
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert project_folder(inside) == tmp_path / "stabgate-baselines"
    (tmp_path / "pytest.ini").unlink()
    (tmp_path / "stabgate-baselines").mkdir()
    assert project_folder(inside) == tmp_path / "stabgate-baselines"
    (tmp_path / "pyproject.toml").write_text("not = toml = at all")
    with pytest.raises(sg.InputError, match=r"pyproject\.toml: cannot be read"):
        project_folder(inside)
