"""The page in a real browser: it asks for nothing, runs nothing that it was not given, and does what it offers."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace

import measured_sessions as sessions
import pytest

import stabgate as sg
from stabgate.gate import judge_min_k_stability
from stabgate.report.evidence import with_details
from stabgate.report.html import LIMIT, write_html
from stabgate.report.session import SessionReport

pytestmark = pytest.mark.browser
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no chromium was found: install it, or name it in CHROMIUM", allow_module_level=True)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_html(sessions.session(folder), folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def opened(browser):
    """Opens a file in a context of its own; fails if a page asked for anything, logged an error or raised one."""
    contexts, wrong = [], []

    def go(file, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        here = file.as_uri()

        def asks(url):
            return not url.startswith("data:") and url.split("#")[0] != here

        page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("request", lambda request: wrong.append(f"request: {request.url}") if asks(request.url) else None)
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.goto(here)
        return page

    go.wrong = wrong
    yield go
    for context in contexts:
        context.close()


@pytest.fixture
def visit(opened):
    yield opened
    assert opened.wrong == []


@pytest.fixture(scope="module")
def desktop(opened, file):
    return opened(file)


RESET = """() => {
    closeAll.click();
    controls.reset();
    filter();
    const order = document.querySelector("[data-key=order]");
    if (order.closest("th").getAttribute("aria-sort") !== "ascending") order.click();
}"""


@pytest.fixture
def page(desktop, opened):
    """The page as it was when it was opened, but for what has been built below gates."""
    desktop.evaluate(RESET)
    yield desktop
    assert opened.wrong == []


def names(page) -> list[str]:
    return page.locator("tbody.gate:visible button.open").all_inner_texts()


def gate(page, name):
    return page.locator("tbody.gate", has=page.get_by_role("button", name=name))


def open_all(page):
    buttons = page.locator("button.open")
    for i in range(buttons.count()):
        buttons.nth(i).click()


def test_every_gate_opens_without_a_request_or_an_error_and_names_are_text(page):
    open_all(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[onerror]").count() == 0
    assert f"steady {sessions.SCRIPT}" in names(page)
    assert page.locator(".message", has_text="<img src=x onerror=1>").count() == 1
    assert page.locator(".plot svg.main-svg").count() >= 10
    assert page.locator("script").count() == page.locator("script[type='application/json']").count() + 2


def test_problems_stand_first_and_verdicts_are_counted_and_filtered(page):
    verdicts = page.locator("tbody.gate .badge").all_inner_texts()
    assert [text.split(" ", 1)[1] for text in verdicts] == ["FAIL", "FAIL", "NOT MEASURED", "PASS", "PASS"]
    assert page.locator(".count .number").all_inner_texts() == ["2", "1", "0", "2"]
    page.get_by_role("checkbox", name=re.compile("PASS")).uncheck()
    assert len(names(page)) == 3
    assert page.get_by_role("status").first.inner_text() == "3 of 5 gates"
    page.get_by_label("Kind").select_option("regression")
    assert names(page) == ["credit/drop"]
    page.get_by_label("Kind").select_option("all")
    page.get_by_label("Find").fill("CREDIT")
    assert sorted(names(page)) == ["credit/drop", "credit/lime"]
    page.get_by_label("Find").fill("test_x.py::credit/lime")  # the test's id
    assert names(page) == ["credit/lime"]
    page.get_by_label("Find").fill("no such gate")
    assert names(page) == []
    assert page.get_by_text("No gate matches.").is_visible()


def test_columns_sort_both_ways_and_say_so(page):
    by_name = page.get_by_role("button", name="Gate", exact=True)
    by_name.click()
    first = names(page)
    assert first == sorted(first)
    assert page.locator("th", has=by_name).get_attribute("aria-sort") == "ascending"
    by_name.click()
    assert names(page) == first[::-1]
    assert page.locator("th", has=by_name).get_attribute("aria-sort") == "descending"
    assert page.locator("[aria-sort]").count() == 1
    page.get_by_role("button", name="Seconds").click()
    seconds = [float(t) for t in page.locator("td.end").all_inner_texts() if t[0].isdigit()]
    assert seconds == sorted(seconds)


def test_details_are_made_when_a_gate_is_opened_and_by_the_keyboard(visit, file):
    page = visit(file)
    assert page.locator(".plot").count() == 0
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "open":
            break
    focused = page.evaluate("document.activeElement.textContent")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("button.open[aria-expanded=true]").all_inner_texts() == [focused]
    assert page.locator("section.detail:visible").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("section.detail:visible").count() == 0


def test_a_row_is_chosen_and_its_blocking_pair_named(page):
    page.get_by_role("button", name="credit/lime").click()
    lime = gate(page, "credit/lime")
    chooser = lime.get_by_label(re.compile("Row, those below"))
    options = chooser.locator("option").all_inner_texts()
    assert len(options) == 10
    failing = [text for text in options if "does not meet" in text]
    assert options[: len(failing)] == failing
    ks = [int(re.search(r"k = (\d)", text).group(1)) for text in failing]
    assert ks == sorted(ks)
    shown = lime.get_by_role("heading", name=re.compile("Leading features of row"))
    assert shown.inner_text().endswith(f"row {options[0].split(' ')[0]}")
    assert lime.get_by_text(re.compile(r"overlap: distance 0\.\d+, 0\.9 is needed")).count() >= 1
    lime.get_by_role("button", name="Next").click()
    assert shown.inner_text().endswith(f"row {options[1].split(' ')[0]}")
    chooser.select_option(index=9)
    assert shown.inner_text().endswith(f"row {options[9].split(' ')[0]}")
    assert lime.get_by_role("button", name="Next").is_disabled()
    ticks = lime.locator(".plot").last.locator(".ytick text").all_text_contents()
    assert len(ticks) == 6
    assert any("🦊 <b>bold</b>&amp;" in text for text in ticks)
    # The same as a table: six features, by rank.
    figure = lime.locator("figure", has=page.get_by_role("heading", name=re.compile("Leading features of row")))
    figure.get_by_text("Numbers").click()
    playwright.expect(figure.locator("tbody tr")).to_have_count(6)


def test_charts_have_a_table_that_says_the_same(page):
    page.get_by_role("button", name="credit/lime").click()
    lime = gate(page, "credit/lime")
    for title, lines in (("k per row", 6), ("Separability curve", 5), ("Heat map in rank order", 6)):
        figure = lime.locator("figure", has=page.get_by_role("heading", name=title))
        figure.get_by_text("Numbers").click()
        playwright.expect(figure.locator("tbody tr")).to_have_count(lines)
    k = lime.locator("figure", has=page.get_by_role("heading", name="k per row"))
    cells = [row.split("\t") for row in k.locator("tbody tr").all_inner_texts()]
    assert sum(int(cell) for row in cells for cell in row[1:]) == 10  # every row is in one bar


def test_counts_of_rows_and_values_of_k_have_whole_ticks(visit, tmp_path):
    gates = []
    for rows in (1, 3, 5, 12):
        made = sg.measure_k_stability(sessions.noisy(0.01), sessions.rows(rows), runs=10)
        gates.append(sessions.reported(f"{rows} rows", judge_min_k_stability(made, k=3), tmp_path))
    write_html(SessionReport(tuple(with_details(gates)), True, "", "2026-11-30"), tmp_path / "few.html")
    page = visit(tmp_path / "few.html")
    open_all(page)
    figures = page.locator("figure", has=page.get_by_role("heading", name="k per row"))
    for figure in figures.all():
        figure.locator(".ytick text").first.wait_for()
        for axis in ("ytick", "xtick"):
            ticks = [int(text) for text in figure.locator(f".{axis} text").all_text_contents()]
            assert len(ticks) == len(set(ticks)) >= 2
    assert figures.count() == 4


def test_the_comparison_with_a_baseline_has_whole_ticks_of_k(page):
    page.evaluate("""() => {
        const figure = changeChart({ changes: [["r1", 3, 2], ["r2", 3, 1]], before_k: {}, compared: {} });
        figure.id = "changed";
        document.body.append(figure);
        figure.draw();
    }""")
    page.locator("#changed .xtick text").first.wait_for()
    assert page.locator("#changed .xtick text").all_text_contents() == ["1", "2", "3"]
    page.evaluate("document.getElementById('changed').remove()")


def test_hover_says_what_a_cell_of_the_heat_map_is(page):
    page.get_by_role("button", name="credit/lime").click()
    lime = gate(page, "credit/lime")
    plot = lime.locator("figure", has=page.get_by_role("heading", name="Heat map")).locator(".plot")
    plot.scroll_into_view_if_needed()
    box = plot.locator(".nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.08)
    plot.locator(".hoverlayer .hovertext").wait_for()
    assert re.match(r"rank 1 and rank 2: mean distance 0?\.?\d", plot.locator(".hoverlayer").text_content())


def test_images_maps_and_their_difference_are_shown_with_components(page):
    page.get_by_role("button", name="tiny/saliency").click()
    maps = gate(page, "tiny/saliency")
    pictures = maps.locator(".strip img")
    assert pictures.count() == 5
    assert page.evaluate("[...document.querySelectorAll('.strip img')].every((i) => i.naturalWidth === 32)")
    scores = [float(text) for text in maps.locator(".components b").all_inner_texts()]
    assert scores[0] == pytest.approx(sum(scores[1:]) / 3, abs=2e-3)
    maps.get_by_role("button", name="Next").click()
    assert pictures.count() == 5
    assert maps.get_by_role("heading", name="Retention").is_visible()


def test_baseline_and_now_stand_beside_each_other(page):
    page.get_by_role("button", name="credit/drop").click()
    drop = gate(page, "credit/drop")
    figure = drop.locator("figure", has=page.get_by_role("heading", name="Baseline and now"))
    found = re.match(r"(\d+) rows? fell, (\d+) rose, (\d+) stayed", figure.locator("figcaption").inner_text())
    assert sum(map(int, found.groups())) == 10
    figure.get_by_text("Numbers").click()
    rows = figure.locator("tbody tr")
    playwright.expect(rows).to_have_count(int(found.group(1)) + int(found.group(2)))
    cells = [row.split("\t") for row in rows.all_inner_texts()]
    assert all(int(now) < int(before) for _, before, now in cells)


@pytest.mark.parametrize("width", [375, 768])
def test_nothing_overflows_on_a_phone_or_tablet(visit, file, width):
    page = visit(file, width, 800)
    open_all(page)
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_dark_page_is_dark_and_its_charts_too(visit, file):
    page = visit(file, color_scheme="dark")
    page.get_by_role("button", name="credit/lime").click()

    def light(selector, what):
        colour = page.locator(selector).first.evaluate(f"(e) => getComputedStyle(e).{what}")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    assert light("body", "backgroundColor") < 60
    assert light("body", "color") > 200
    assert light(".plot .xtick text", "fill") > 200
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        "() => getComputedStyle(document.querySelector('.plot .xtick text')).fill.match(/\\d+/)[0] < 60"
    )
    assert light("body", "backgroundColor") > 200


def test_on_paper_the_gates_that_did_not_pass_are_open_and_all_is_dark_on_white(visit, file):
    page = visit(file, 794, 1123, color_scheme="dark")
    page.emulate_media(media="print")
    page.wait_for_function("() => document.querySelectorAll('tr.more:not([hidden])').length === 3")
    assert page.locator("#find").is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("[...document.querySelectorAll('.plot svg.main-svg')].every((s) => s.clientWidth <= 700)")
    page.emulate_media(media="screen")
    page.wait_for_function("() => document.querySelectorAll('tr.more:not([hidden])').length === 0")


def test_without_scripts_verdicts_and_messages_are_there(visit, file):
    page = visit(file, java_script_enabled=False)
    assert "credit/lime" in page.locator("th.name bdi:visible").all_inner_texts()
    assert page.locator(".message", has_text="required k >= 4 on 90 % of rows").first.is_visible()


def test_an_address_opens_its_gate(page):
    page.evaluate("location.hash = '#gate-2'")
    page.wait_for_function("() => !document.getElementById('more-2').hidden")


def test_five_hundred_gates_stay_below_the_limit_and_are_built_when_opened(visit, file, tmp_path):
    one = sessions.session(file.parent)
    many = [replace(one.gates[i % 5], name=f"{one.gates[i % 5].name} {i}") for i in range(500)]
    big = tmp_path / "big.html"
    write_html(replace(one, gates=tuple(many)), big)
    assert big.stat().st_size < LIMIT
    page = visit(big)
    assert page.locator("tbody.gate").count() == 500
    assert page.evaluate("document.getElementsByTagName('*').length") < 30 * 500
    assert page.locator(".plot").count() == 0
    page.get_by_label("Find").fill("credit/lime 45")
    assert sorted(names(page)) == sorted(gate.name for gate in many if "credit/lime 45" in gate.name)
    page.locator("tbody.gate:visible button.open").first.click()
    assert page.locator(".plot").count() == 4
