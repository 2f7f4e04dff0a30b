"""Files and notebook output: what they contain, how large they are, and what they never do."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from shardviz.core.errors import FileError
from shardviz.core.layout import layout
from shardviz.core.spec import parse
from shardviz.core.unshuffle import unshuffle
from shardviz.picture import Picture, Section, Table, draw, page
from shardviz.picture.figure import draw_marks
from shardviz.picture.look import look
from shardviz.picture.rendered import scene_svg
from shardviz.picture.scene import Cell, CellKind, scene
from shardviz.picture.svg import write_marks
from shardviz.picture.theme import ADAPTIVE, DARK, HUES, LIGHT, contrast

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
LARGE = "[1000000000] on dp=128, tp=8: _S(0, 8), S(0)"
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>&\u2028\"'"


@pytest.fixture(scope="module")
def story() -> Picture:
    return draw(unshuffle(parse(FIVE)))


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_svg_is_well_formed_labelled_and_deterministic(story: Picture) -> None:
    root = ET.fromstring(story.svg())
    assert root.get("role") == "img"
    assert (root.get("aria-label") or "").split() == story.text.split()
    assert story.svg() == draw(unshuffle(parse(FIVE))).svg()
    assert "unshuffle" in "".join(root.itertext())


def test_svg_escapes_text(story: Picture) -> None:
    evil = Picture(story.scene, EVIL, EVIL, story.table)
    assert ET.fromstring(evil.svg()).get("aria-label") is not None
    assert "<script" not in evil.svg()


def test_png_has_the_size_of_the_scene(story: Picture) -> None:
    data = story.png(96)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    size = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert size == pytest.approx((story.scene.width, story.scene.height), abs=1)
    assert data == story.png(96)


def test_a_figure_has_an_artist_for_every_mark_named_by_step_rank_and_element(story: Picture) -> None:
    figure = story.figure()
    assert len(figure.artists) == len(story.scene.marks)
    named = {artist.get_gid() for artist in figure.artists}
    assert {"step-0-rank-0-element-1", "step-1-rank-1-padding", "step-7-rank-3-element-4"} <= named
    assert "rank-1-element-0:2,3:5" in {a.get_gid() for a in draw("[4, 5] on dp=2, tp=2: S(0), S(1)").figure().artists}
    (one,) = figure.findobj(lambda artist: artist.get_gid() == "step-0-rank-0-element-0")
    one.set_facecolor("red")
    assert one.get_facecolor() == (1, 0, 0, 1)


def test_a_picture_is_drawn_into_a_subplot_and_scales_with_it(story: Picture) -> None:
    figure = Figure(figsize=(8, 4), dpi=100)
    left, right = figure.subplots(1, 2)
    left.plot([0, 1])
    assert draw(parse(FIVE), ax=right).text == draw(parse(FIVE)).text
    assert len(right.patches) == len(draw(parse(FIVE)).scene.marks)
    FigureCanvasAgg(figure).draw()
    cell = next(a for a in right.patches if a.get_gid() == "rank-3-element-4")
    box, frame = cell.get_window_extent(), right.get_window_extent()
    assert frame.x0 <= box.x0 < box.x1 <= frame.x1
    assert box.width / frame.width == pytest.approx(cell.mark.width / draw(parse(FIVE)).scene.width, rel=0.01)


def test_pdf_keeps_text_as_text_and_its_bytes(story: Picture) -> None:
    data = story.pdf()
    assert data.startswith(b"%PDF")
    assert data == story.pdf()
    assert b"/FontFile2" in data  # TrueType, not shapes
    assert b"/Type3" not in data
    streams = re.findall(rb"FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL)
    pages = b"".join(zlib.decompress(part) for part in streams)
    assert b" Tj" in pages or b" TJ" in pages


@pytest.mark.parametrize("kind", get_args(CellKind))
@pytest.mark.parametrize("hue", range(-1, len(HUES)))
def test_both_writers_of_svg_write_the_same_of_every_look(kind: CellKind, hue: int) -> None:
    marks = [Cell(10.3, 10.77, 41, 33, kind, hue, "7-\n12", "r9", 3, (7, 13)), Cell(60, 10, 5, 5.5, kind, hue)]
    drawn = scene(120, 60, marks)
    for theme in (LIGHT, DARK, ADAPTIVE):
        assert scene_svg(drawn, "x", theme, dims=(0,), write=draw_marks) == scene_svg(
            drawn, "x", theme, dims=(0,), write=write_marks
        )


def test_both_writers_of_svg_write_the_same_pictures(story: Picture) -> None:
    others = draw("[7, 5] on dp=2, tp=3: S(0), S(1)"), draw("[3, 5] on dp=4: P(sum)"), draw("[512] on dp=8, tp=8: S(0), S(0)")
    for picture in (story, *others):
        assert scene_svg(picture.scene, "x", dims=picture.dims, write=draw_marks) == scene_svg(
            picture.scene, "x", dims=picture.dims, write=write_marks
        )


def test_the_label_of_every_cell_can_be_read() -> None:
    for theme in (LIGHT, DARK):
        for kind, hue in product(get_args(CellKind), range(-1, len(HUES))):
            seen = look(Cell(0, 0, 9, 9, kind, hue))
            assert contrast(theme.color(seen.ink), theme.color(seen.fill or "surface")) >= 4.0, (kind, hue)


def test_without_matplotlib_the_light_writer_stands_in(story: Picture) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from shardviz.picture import draw; from shardviz.core.unshuffle import unshuffle\n"
        f"picture = draw(unshuffle({FIVE!r})); print(picture.svg(), end='')\n"
        "assert '<svg' in picture.html() and picture._repr_mimebundle_()['text/html'].startswith('<svg')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == story.svg()


def test_drawing_leaves_no_state(story: Picture) -> None:
    code = (
        "import matplotlib, sys; now = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = now()\n"
        "from shardviz.picture import draw; from shardviz.core.layout import layout; from shardviz.core.spec import parse\n"
        f"draw(layout(parse({FIVE!r}))).png()\n"
        "assert now() == before and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", ["shardviz.picture", "shardviz.picture.scene_story"])
def test_scenes_need_no_drawing_library(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'matplotlib', 'numpy', 'torch', 'jinja2'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_import_check_can_fail() -> None:
    code = "import sys, shardviz.picture.figure; sys.exit(bool({'matplotlib', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf", ".html"])
def test_save_by_ending(story: Picture, ending: str, tmp_path: Path) -> None:
    path = story.save(tmp_path / "new" / f"x{ending}")
    assert path.stat().st_size > 1000


def test_save_refuses_other_endings(story: Picture, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"'x\.jpg': a picture is saved as \.svg, \.png, \.pdf, \.html"):
        story.save(tmp_path / "x.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        story.save(tmp_path / "file" / "x.svg")


def test_notebook_gets_svg_while_small_and_an_image_beyond() -> None:
    small = draw(layout(parse(FIVE)))
    assert small._repr_mimebundle_()["text/html"].startswith("<svg")
    assert small._repr_mimebundle_()["text/plain"] == small.text == str(small)
    large = draw(unshuffle(parse("[64] on dp=16: S(0)")))
    ((tag, attributes),) = Tags(large._repr_mimebundle_()["text/html"]).found
    assert tag == "img"
    assert attributes["alt"] == large.alt
    assert (attributes["width"], attributes["height"]) == (str(round(large.scene.width)), str(round(large.scene.height)))


def test_a_notebook_picture_takes_the_colours_of_a_dark_page(story: Picture) -> None:
    shown = story.markup()
    assert "[data-jp-theme-light=false]" in shown
    assert "var(--shardviz-ink, #1f2733)" in shown
    assert "var(" not in story.svg()


def test_page_is_self_contained_and_named(story: Picture) -> None:
    text = story.html()
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    for tag, attributes in Tags(text).found:
        if tag == "button":
            assert attributes["aria-label"]
        if tag == "input":
            assert attributes.get("aria-label") or "pick" in (attributes["class"] or "")
    assert "prefers-color-scheme:dark" in text
    assert "prefers-reduced-motion" in text


def test_page_keeps_text_from_outside_as_text(story: Picture) -> None:
    evil = Picture(story.scene, EVIL, EVIL, Table((EVIL,), ((EVIL,),)), story.frames)
    text = page(EVIL, [Section(EVIL, EVIL, evil, Table((EVIL,), ((EVIL,),)))], EVIL)
    tags = [tag for tag, _ in Tags(text).found]
    assert tags.count("script") == 1
    assert "img" not in tags


@pytest.mark.parametrize("text", [LARGE, "[1000000, 1000000] on dp=32, tp=32: _S(0, 100), _S(1, 100)"])
def test_large_layouts_stay_small_files(text: str) -> None:
    picture = draw(layout(parse(text)))
    assert len(picture.html().encode()) < 2_500_000


def test_a_large_story_stays_a_small_page() -> None:
    assert len(draw(unshuffle(parse(LARGE))).html().encode()) < 2_500_000


def test_a_story_is_saved_as_an_animation_of_its_steps(tmp_path):
    story = unshuffle(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"))
    with Image.open(draw(story).save(tmp_path / "five.gif")) as animation:
        assert animation.n_frames == len(story.steps)


def test_a_layout_has_nothing_to_animate(tmp_path):
    with pytest.raises(FileError, match="only a story has steps"):
        draw(layout(parse("[5] on dp=2: S(0)"))).save(tmp_path / "five.gif")
