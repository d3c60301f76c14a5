"""Writes the generated pages of the docs: ``python docs/make_tables.py``."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests" / "matrix"))


def main() -> None:
    """Write works-with.md from the table that the matrix test checks."""
    from works_with import markdown

    (DOCS / "works-with.md").write_text(markdown(), encoding="utf-8")


if __name__ == "__main__":
    main()
