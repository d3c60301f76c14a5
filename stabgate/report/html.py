"""The HTML page of a session: one file, a function of the document alone, and no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from stabgate.errors import MissingDependencyError
from stabgate.report.details import fit
from stabgate.report.plain import plain
from stabgate.report.session import SessionReport
from stabgate.report.view import GateView, comparisons_of, counts_of, facts_of, totals_of, views_of
from stabgate.verdict.numbers import percent
from stabgate.verdict.verdicts import Outcome

LIMIT = 15_000_000  # bytes of the page, the chart library included
OVERVIEW = 5_000_000  # bytes of the overview: lines and messages of gates
LINE = 2_500  # bytes of the markup of one gate
SCRIPTS = ("page.js", "charts.js", "gates.js")
NEEDS = ("jinja2", "plotly")


def write_html(session: SessionReport, path: str | os.PathLike[str]) -> None:
    """Write the page, whole or not at all.

    Raises:
        MissingDependencyError, InputError: as `render_html`; the file cannot be written.
    """
    from stabgate.files import write_text

    write_text(Path(path), render_html(session))


def check_html() -> None:
    """Raise MissingDependencyError unless the packages that the page is made with are installed."""
    from importlib.util import find_spec

    for name in NEEDS:
        if find_spec(name) is None:
            raise MissingDependencyError(
                f"the HTML report needs {name}, which is not installed; install it with: pip install 'stabgate[report]'"
            )


def render_html(session: SessionReport) -> str:
    """The page of a session, at most 15 MB: what is least useful is left out and counted.

    Raises:
        MissingDependencyError: jinja2 or plotly is not installed.
    """
    check_html()
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    scripts = [_newlines(get_plotlyjs()), "\n".join(_asset(name) for name in SCRIPTS)]
    views = views_of(session)
    shown = _shown(views)
    fixed = sum(len(script.encode()) for script in scripts) + sum(_length(view) for view in shown)
    data = fit([view.data for view in shown], [view.problem for view in shown], LIMIT - fixed - LINE * 100)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"css": _css, "percent": lambda share: percent(round(share, 3))}
    page = environment.from_string(_asset("page.html")).render(
        title="Stability of explanations",
        lead=_lead(session),
        complete=session.complete,
        incomplete_because=plain(session.incomplete_because),
        policy=_policy(scripts),
        style=Markup(_asset("page.css")),
        counts=counts_of(session),
        kinds=sorted({view.kind for view in shown}),
        gates=shown,
        total=len(views),
        hidden=_hidden(views[len(shown) :]),
        comparisons=comparisons_of(session),
        totals=totals_of(session),
        facts=facts_of(session),
        blocks=[Markup(_json(one)) for one in data],
        scripts=[Markup(script) for script in scripts],
    )
    # A lone half of a surrogate pair in a name has no UTF-8.
    return page.encode("utf-8", "replace").decode()


def _shown(views: Sequence[GateView]) -> list[GateView]:
    """As many gates as an overview holds, problems first."""
    left, shown = OVERVIEW, []
    for view in views:
        left -= _length(view)
        if left < 0:
            break
        shown.append(view)
    return shown


def _length(view: GateView) -> int:
    words = (view.name * 3, view.asked, view.measured, view.explainer, view.baseline, view.message, view.waived)
    return LINE + sum(2 * len(word.encode("utf-8", "replace")) for word in words)


def _hidden(views: Sequence[GateView]) -> str:
    if not views:
        return ""
    problems = sum(view.problem for view in views)
    passed = "all of them passed" if not problems else f"{problems} of them did not pass"
    return f"{len(views)} more gates are not shown, so that this page stays readable; {passed}."


def _lead(session: SessionReport) -> str:
    total = len(session.gates)
    if not total:
        return "No gate came to a verdict."
    if session.unfinished:
        return f"The run did not finish: {plain(session.unfinished)}."
    passed = sum(gate.outcome is Outcome.PASS for gate in session.gates)
    gates = "gate" if total == 1 else "gates"
    if passed == total:
        return f"The {gates} passed." if total == 1 else f"All {total} gates passed."
    return f"{total - passed} of {total} {gates} did not pass."


def _policy(scripts: Sequence[str]) -> str:
    """Only these scripts run, nothing is fetched, nothing is sent."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _json(data: Any) -> str:
    """JSON that no text can end: neither a script element nor a comment opens or closes in it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return _newlines((resources.files("stabgate.report") / "assets" / name).read_text(encoding="utf-8"))


def _newlines(text: str) -> str:
    # Browsers see "\n" whatever the file has, and the policy's hashes are of what they see.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _css(outcome: str) -> str:
    return outcome.lower().replace(" ", "-")
