"""Pages that scripts write are those that the scripts would write now."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["defaults", "commands"])
def test_a_page_that_is_read_from_the_code_is_that_of_the_code(name):
    page = runpy.run_path(str(ROOT / "docs" / f"make_{name}.py"))["page"]()
    written = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert written == page, f"run: python docs/make_{name}.py"


def test_files_that_the_readme_links_to_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
