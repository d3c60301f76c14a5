"""The documents say what the code does, and their code runs."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def test_the_table_of_defaults_is_that_of_the_code():
    page = runpy.run_path(str(ROOT / "docs" / "make_defaults.py"))["page"]()
    assert (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8") == page, "run: python docs/make_defaults.py"


def blocks() -> list[object]:
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for number, code in enumerate(BLOCKS.findall(path.read_text(encoding="utf-8"))):
            found.append(pytest.param(code, id=f"{path.name}-{number}"))
    return found


@pytest.mark.parametrize("code", blocks())
def test_the_code_of_the_documents_runs(code, tmp_path, monkeypatch):
    """A block with a test in it goes through pytest, any other through Python."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "test_block.py"
    file.write_text(code, encoding="utf-8")
    how = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)] if "def test_" in code else [str(file)]
    done = subprocess.run([sys.executable, *how], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
