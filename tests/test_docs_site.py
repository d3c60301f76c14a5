"""The site builds strictly, has no dead link, loads nothing from the network, and names every public function."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import FunctionType
from urllib.parse import unquote, urlsplit

import pytest

import stabgate
from stabgate import explainers, perturbations

ROOT = Path(__file__).resolve().parents[1]


class Page(HTMLParser):
    """What a page links to, what it loads, and which anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {""}
        self.pictures: list[dict[str, str | None]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") != "canonical" and found.get("href"):
            self.loads.append(found["href"])
        elif found.get("src"):
            self.loads.append(found["src"])
        if tag == "img":
            self.pictures.append(found)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_has_a_page_and_an_anchor(site, pages):
    broken = []
    for name, page in pages.items():
        if name == "404.html":  # its links start at the root, wherever that will be
            continue
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                continue
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            if not target.exists():
                broken.append(f"{name}: {link} does not exist")
            elif target.suffix == ".html":
                other = pages[target.resolve().relative_to(site.resolve()).as_posix()]
                if unquote(parts.fragment) not in other.anchors and not parts.fragment.startswith("__"):
                    broken.append(f"{name}: {link} has no such anchor")
    assert broken == []
    assert len(pages) > 20


def test_nothing_is_loaded_from_the_network(site, pages):
    assert [load for page in pages.values() for load in page.loads if urlsplit(load).scheme in ("http", "https")] == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not any("url(http" in style or "@import" in style for style in styles)


def test_pictures_say_what_they_show(pages):
    pictures = [picture for page in pages.values() for picture in page.pictures]
    assert len(pictures) >= 7
    assert [picture for picture in pictures if len(picture.get("alt") or "") < 30] == []


@pytest.mark.parametrize("room", [stabgate, explainers, perturbations], ids=lambda room: room.__name__)
def test_every_public_name_has_its_place_in_the_reference(pages, room):
    anchors = {anchor for name, page in pages.items() if name.startswith("api/") for anchor in page.anchors}
    rooms = ("explainers", "perturbations", "separability", "similarity")
    homes = ("stabgate", *(f"stabgate.{name}" for name in rooms))
    lost = [
        name
        for name in room.__all__
        if isinstance(getattr(room, name), (type, FunctionType)) and not {f"{home}.{name}" for home in homes} & anchors
    ]
    assert lost == []
