"""``stabgate report``: other forms of a report that a run wrote as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabgate.report.session import SessionReport

HELP = "make a page of what a run measured"
DESCRIPTION = "Write the report of a run in other forms. Nothing is measured and no verdict changes."
EPILOG = """examples:
  stabgate report results.json --html out.html
  stabgate report results.json --markdown out.md --junit out.xml

REPORT.json is what pytest --stabgate-json or stabgate run --json wrote; the page is the one that --stabgate-html would
have written.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("report", metavar="REPORT.json")
    for form, (text, _) in FORMS.items():
        parser.add_argument(f"--{form}", default=None, metavar="FILE", help=text)
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    from stabgate.errors import InputError
    from stabgate.report.session import SessionReport

    wanted = {form: file for form in FORMS if (file := getattr(options, form)) is not None}
    if not wanted:
        raise InputError("say what to write: " + ", ".join(f"--{form} FILE" for form in FORMS))
    session = SessionReport.load(options.report)
    for form, file in wanted.items():
        FORMS[form][1](session, file)
        print(f"{file}: {len(session.gates)} {'gate' if len(session.gates) == 1 else 'gates'}")
    return 0


def _html(session: SessionReport, file: str) -> None:
    from stabgate.report.html import write_html

    write_html(session, file)


def _markdown(session: SessionReport, file: str) -> None:
    from stabgate.files import write_text
    from stabgate.report.markdown import markdown

    write_text(Path(file), markdown(session))


def _junit(session: SessionReport, file: str) -> None:
    from stabgate.files import write_text
    from stabgate.report.junit import junit

    write_text(Path(file), junit(session))


# By flag: what its help says, and what writes the file.
FORMS: dict[str, tuple[str, Callable[[SessionReport, str], None]]] = {
    "html": ("one page that needs no network", _html),
    "markdown": ("Markdown, problems first", _markdown),
    "junit": ("a JUnit file", _junit),
}
