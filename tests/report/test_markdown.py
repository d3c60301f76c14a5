"""Markdown and workflow commands: problems first, hostile names as text, never too large, only on GitHub."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sessions import HOSTILE, drop_gate, error_gate, fass_gate, k_gate, session

from stabgate.report.github import append_summary, commands, on_github, tell_github
from stabgate.report.markdown import LIMIT, markdown
from stabgate.verdict.verdicts import Outcome

markdown_package = pytest.importorskip("markdown", reason="the Markdown package renders what is checked")


def rendered(text: str) -> str:
    return markdown_package.markdown(text, extensions=["tables"])


def test_problems_stand_first_with_their_reason_then_every_gate():
    text = markdown(session(fass_gate(), k_gate(), error_gate(), drop_gate(warns=True)))
    assert text.startswith(
        "## ❌ stabgate: 2 of 4 gates do not pass\n\n4 gates: 1 FAIL, 1 NOT MEASURED, 1 INCONCLUSIVE"
    )
    lines = text.splitlines()
    first = lines.index("| verdict | gate | why |")
    assert lines[first + 2 : first + 5] == [
        "| ❌ FAIL | credit/lime | 7 of 10 rows meet k &gt;= 3, 9 are needed (90 %) |",
        "| ⛔ NOT MEASURED | credit/wrong | k=7 asks for more than the 3 features there are |",
        "| ❔ INCONCLUSIVE (only warns) | credit/shap | the seed was 0 then and is 1 now |",
    ]
    assert "| photos/ig | integrated-gradients | all | 0.700 |" in text
    assert "<details><summary>FAIL: credit/lime</summary>\n<pre>FAIL: credit/lime: required 90 %\n" in text


def test_a_run_in_which_all_is_well_says_so():
    assert markdown(session(fass_gate())).startswith("## ✅ stabgate: the gate passes\n")
    assert markdown(session(k_gate(waived="until 2026-02-01: known"))).startswith(
        "## ✅ stabgate: every gate passes or is let through"
    )
    assert "no gate ran" in markdown(session())


def test_hostile_names_become_text():
    gates = [k_gate(name) for name in HOSTILE] + [drop_gate(name) for name in HOSTILE]
    text = markdown(session(*gates))
    assert not set("\x1b\x00\x07\u202e\r") & set(text)
    page = rendered(text)
    assert "<script" not in page
    assert "<a " not in page
    assert "@" not in page.replace("&#64;", "")
    headings, *rows = re.findall(r"^\| .*", text, re.M)
    assert headings == "| verdict | gate | why |"
    columns = [len(re.findall(r"(?<!\\)\|", row)) - 1 for row in rows[1 : 1 + len(gates)]]
    assert set(columns) == {3}


def test_it_stays_below_githubs_limit_with_any_number_of_gates():
    gates = [k_gate(f"gate {i} {'é' * 280}") for i in range(3000)] + [fass_gate(f"good {i}") for i in range(500)]
    text = markdown(session(*gates))
    assert len(text.encode()) <= LIMIT < 2**20
    assert "more problems are left out for want of room" in text or "are left out for want of room" in text
    short = markdown(session(*gates), limit=5000)
    assert len(short.encode()) <= 5000
    assert "| ❌ FAIL | gate 0" in short


def test_commands_stand_at_the_tests_line_and_nothing_can_be_forged(monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", "/repo")
    found = list(commands(session(k_gate(), k_gate("known", waived="until 2026-02-01: a, b"), fass_gate())))
    assert found == [
        "::error file=tests/test_credit.py,line=12,title=stabgate%3A FAIL%3A credit/lime::"
        "credit/lime: 7 of 10 rows meet k >= 3, 9 are needed (90 %25)",
        "::warning file=tests/test_credit.py,line=12,title=stabgate%3A FAIL%3A known::"
        "known (waived until 2026-02-01: a, b): 7 of 10 rows meet k >= 3, 9 are needed (90 %25)",
    ]
    for name in HOSTILE:
        [line] = commands(session(k_gate(name)))
        assert "\n" not in line
        assert "\r" not in line
        properties = re.fullmatch(r"::error ([^:]*)::.*", line)
        assert properties is not None
        assert [part.split("=")[0] for part in properties.group(1).split(",")] == ["file", "line", "title"]
    [warning] = commands(session(drop_gate(warns=True)))
    assert warning.startswith("::warning ")
    assert [line.split(" ")[0] for line in commands(session(*[k_gate(str(i)) for i in range(80)]))] == ["::error"] * 51


def test_nothing_is_said_outside_github(monkeypatch, tmp_path):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    said: list[str] = []
    for value in (None, "", "false", "1"):
        monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
        if value is not None:
            monkeypatch.setenv("GITHUB_ACTIONS", value)
        assert not on_github()
        tell_github(session(k_gate()), said.append)
    assert said == []
    assert not summary.exists()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    tell_github(session(k_gate()), said.append)
    assert len(said) == 1
    assert summary.read_text(encoding="utf-8").startswith("## ❌ stabgate: 1 of 1 gates does not pass")


def test_the_summary_is_appended_to_what_is_there_and_never_fills_the_file(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    assert append_summary(session(k_gate()), path) == ""
    assert path.read_text(encoding="utf-8").startswith("before\n## ❌ stabgate")
    path.write_text("x" * 900_000, encoding="utf-8")
    assert append_summary(session(*[k_gate(f"gate {i}") for i in range(2000)]), path) == ""
    assert 900_000 < path.stat().st_size < 2**20
    path.write_text("x" * 999_000, encoding="utf-8")
    assert "is full (999,000 bytes)" in append_summary(session(k_gate()), path)
    assert "cannot be written" in append_summary(session(k_gate()), tmp_path / "none" / "summary.md")


def test_it_is_a_pure_function_that_needs_no_numpy():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sessions import *; "
        "from stabgate.report.markdown import markdown; a = markdown(session(k_gate())); "
        "assert a == markdown(session(k_gate())); print(sorted({'pandas', 'torch', 'shap'} & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
    assert Outcome.PASS
