"""The drawn pictures are those that the tool draws; they need nothing, and a page shows each."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from tests.docs.blocks import ROOT
from tools import make_diagrams

PICTURES = make_diagrams.pictures()
TEXT = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_tool_draws(name: str) -> None:
    written = (make_diagrams.FOLDER / name).read_text(encoding="utf-8")
    assert written == PICTURES[name], "out of date: run `make docs`"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_needs_nothing_and_says_what_it_shows(name: str) -> None:
    picture = ET.fromstring(PICTURES[name])
    spaces = "{http://www.w3.org/2000/svg}"
    assert (picture.findtext(f"{spaces}title") or "") != ""
    kinds = {each.tag.removeprefix(spaces) for each in picture.iter()}
    assert kinds <= {"svg", "title", "style", "text", "rect", "polyline", "polygon"}
    assert "prefers-color-scheme: dark" in PICTURES[name]
    assert "url(" not in PICTURES[name]


@pytest.mark.parametrize("name", PICTURES)
def test_words_stay_inside(name: str) -> None:
    """About seven pixels a letter; a picture that is cut at its edge would show it."""
    picture = ET.fromstring(PICTURES[name])
    width = float(picture.attrib["width"])
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        x, long = float(text.attrib["x"]), 6.6 * len(text.text or "")
        left = x - long * {"start": 0, "middle": 0.5, "end": 1}[text.attrib["text-anchor"]]
        assert left >= 0 and left + long <= width + 10, text.text


@pytest.mark.parametrize("name", PICTURES)
def test_words_do_not_touch_their_box(name: str) -> None:
    """In DejaVu, which Linux has for a sans-serif, as wide a one as there is."""
    picture = ET.fromstring(PICTURES[name])
    spaces = "{http://www.w3.org/2000/svg}"
    boxes = [
        [float(box.attrib[side]) for side in ("x", "y", "width", "height")]
        for box in picture.iter(f"{spaces}rect")
    ]
    for text in picture.iter(f"{spaces}text"):
        at_x, at_y = float(text.attrib["x"]), float(text.attrib["y"])
        letter = 8.4 if text.attrib.get("class") == "bold" else 7.5
        for x, y, width, height in boxes:
            if at_x == x + width / 2 and y < at_y < y + height:
                assert letter * len(text.text or "") + 6 <= width, text.text


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_shows_it_with_words_for_those_who_hear_it(name: str) -> None:
    before, found, _ = TEXT.partition(f"](../images/{name})")
    assert found
    assert len(before.rpartition("![")[2]) > 40


def test_the_last_line_of_the_demo_is_whole() -> None:
    """rich cuts what is below the last line's own height: the feet of its letters."""
    picture = (ROOT / "docs/images/demo.svg").read_text(encoding="utf-8")
    found = re.search(r'clip-terminal">\s*<rect [^>]* height="([\d.]+)"', picture)
    assert found is not None
    lines = re.findall(r'<text [^>]*-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>[^<]*\w', picture)
    assert max(map(float, lines)) + 10 < float(found[1])  # a letter of 20 pixels has feet of 5
