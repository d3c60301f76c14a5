"""--stabgate-html: one page at the end of a session, also from workers, and never a silent one."""

from __future__ import annotations

import json

import pytest
from plugin_gates import NOISY

import pytest_stabgate.fixture  # noqa: F401  # in-process runs forget modules that they import first
from stabgate.report.html import render_html
from stabgate.report.session import SessionReport

GATES = (
    NOISY
    + """
    def test_steady(stabgate):
        stabgate.assert_min_k_stability(noisy(0.01), X, k=3, runs=20)

    def test_shaky(stabgate):
        stabgate.assert_min_k_stability(noisy(2.0), X, k=3, runs=20, name="credit/shaky")
"""
)


def data(page: str) -> list[dict]:
    return [json.loads(part.split("</script>")[0].split(">", 1)[1]) for part in page.split('id="data-')[1:]]


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_page_has_what_was_measured_and_its_path_is_said(pytester, workers):
    pytester.makepyfile(test_gates=GATES)
    result = pytester.runpytest("--stabgate-html=out/report.html", "--stabgate-json=out/results.json", *workers)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["report: out/report.html"])
    page = (pytester.path / "out" / "report.html").read_text(encoding="utf-8")
    shaky, steady = data(page)  # problems first
    assert [len(found["rows"]) for found in (shaky, steady)] == [6, 6]
    assert steady["k"] == {"3": [6, 0]}
    assert len(shaky["curve"]["mean"]) == 2
    assert render_html(SessionReport.load(pytester.path / "out" / "results.json")) == page


def test_the_ini_key_is_relative_to_the_root_and_the_flag_goes_before_it(pytester):
    pytester.makeini("[pytest]\nstabgate_html = from_ini.html\n")
    pytester.makepyfile(test_gates=GATES)
    pytester.runpytest("-k", "steady")
    assert (pytester.path / "from_ini.html").is_file()
    pytester.runpytest("-k", "steady", "--stabgate-html=from_flag.html")
    assert (pytester.path / "from_flag.html").is_file()


def test_a_page_that_cannot_be_written_fails_before_or_after_but_never_passes(pytester):
    pytester.makepyfile(test_gates=GATES)
    (pytester.path / "folder").mkdir()
    result = pytester.runpytest("--stabgate-html=folder", "-k", "steady")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--stabgate-html*folder is a folder*"])
    assert pytester.runpytest("--stabgate-html=", "-k", "steady").ret == pytest.ExitCode.USAGE_ERROR
    (pytester.path / "file").write_text("")
    result = pytester.runpytest("--stabgate-html=file/report.html", "-k", "steady")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: --stabgate-html=file/report.html:*cannot be written*"])
