"""The page in a real browser: a story is stepped and an element followed, with the keyboard and without a network."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from shardviz.core.layout import layout
from shardviz.core.spec import parse
from shardviz.core.unshuffle import unshuffle
from shardviz.picture import Picture, Section, Table, draw, page

pytestmark = pytest.mark.browser

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium")
    if chromium is None:
        assert not os.environ.get("CI"), "the browser tests need Debian's chromium"
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        running = driver.chromium.launch(executable_path=chromium, args=arguments)
        yield running
        running.close()


def opened(browser: Any, text: str, folder: Path, **options: Any) -> tuple[Any, list[str]]:
    """The page as a file on disk, without a network, and every error and request that it makes."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    context = browser.new_context(offline=True, **options)
    view = context.new_page()
    noise: list[str] = []
    view.on("pageerror", lambda error: noise.append(str(error)))
    view.on("console", lambda message: noise.append(message.text))
    view.on("request", lambda request: noise.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    view.goto(path.as_uri())
    return view, noise


def test_a_story_is_stepped_and_an_element_followed(browser: Any, tmp_path: Path) -> None:
    view, noise = opened(browser, draw(unshuffle(parse(FIVE))).html(), tmp_path, reduced_motion="reduce")
    assert view.get_by_role("slider", name="Step of the story").input_value() == "1"
    assert "before anything is sent" in view.locator(".sentence").inner_text()

    view.get_by_role("button", name="Next step").click()
    view.keyboard.press("ArrowRight")
    assert view.locator(".count").inner_text() == "3 of 8"
    assert view.locator(".player svg[role=img]").get_attribute("aria-label") == "Step 3 of 8: all-gather over tp"

    view.get_by_label("Follow element").fill("3")
    assert view.locator(".found").inner_text() == "on ranks 0, 1 in this step"
    view.get_by_role("slider").focus()
    view.keyboard.press("End")
    assert view.locator(".count").inner_text() == "8 of 8"
    assert view.locator(".found").inner_text() == "on ranks 0, 1, 2, 3 in this step"
    assert view.get_by_role("button", name="Next step").is_disabled()
    assert noise == []


def test_clicking_an_element_shows_it_everywhere_and_again_lets_go(browser: Any, tmp_path: Path) -> None:
    view, noise = opened(browser, draw(layout(parse("[6, 4] on rep=2, dp=3: R, S(0)"))).html(), tmp_path)
    cell = view.locator("figure .cell[data-rank='1'][data-span='3 4']").first
    cell.hover()
    assert cell.locator("title").text_content() == "element 3 on rank 1"
    cell.click()
    assert view.locator(".found").inner_text() == "on ranks 1, 4"
    assert view.get_by_label("Follow element").input_value() == "3"
    cell.click()
    assert view.locator(".found").inner_text() == ""
    assert noise == []


def test_play_runs_to_the_end_and_can_be_paused(browser: Any, tmp_path: Path) -> None:
    view, noise = opened(browser, draw(unshuffle(parse("[3] on dp=2: S(0)"))).html(), tmp_path)
    view.get_by_role("button", name="Play").click()
    view.get_by_role("button", name="Pause").click()
    view.get_by_role("button", name="Play").click()
    view.wait_for_function("document.querySelector('.count').textContent === '4 of 4'", timeout=20_000)
    view.get_by_role("button", name="Play").wait_for(timeout=5_000)
    assert noise == []


def test_names_from_outside_stay_text(browser: Any, tmp_path: Path) -> None:
    evil = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    drawn = draw(unshuffle(parse(FIVE)))
    picture = Picture(drawn.scene, evil, evil, drawn.table, drawn.frames)
    view, noise = opened(browser, page(evil, [Section(evil, evil, picture)], evil), tmp_path)
    assert view.locator("h1").inner_text() == evil
    assert view.title() == evil
    assert noise == []


def test_a_long_table_is_filtered_and_a_short_one_is_not(browser: Any, tmp_path: Path) -> None:
    long = Table(("name", "verdict"), tuple((f"layer.{n}", "NOT whole" if n % 5 == 0 else "whole") for n in range(1200)))
    short = Table(("name",), tuple((f"file {n}",) for n in range(12)))
    view, noise = opened(browser, page("Tables", [Section("Long", table=long), Section("Short", table=short)]), tmp_path)
    assert view.get_by_role("searchbox").count() == 1
    box, rows = view.get_by_label("Rows with"), view.locator("section").first.locator("tbody tr:visible")
    assert (rows.count(), view.locator(".kept").inner_text()) == (1200, "all 1,200 rows")
    view.keyboard.press("Tab")  # the box comes before the table
    view.keyboard.type("Not Whole")
    assert (rows.count(), view.locator(".kept").inner_text()) == (240, "240 of 1,200 rows")
    box.fill("layer.119")
    assert rows.locator("th").all_inner_texts() == ["layer.119", *(f"layer.119{n}" for n in range(10))]
    box.fill("nothing like it")
    assert (rows.count(), view.locator(".kept").inner_text()) == (0, "0 of 1,200 rows")
    box.fill("")
    assert rows.count() == 1200
    assert noise == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_the_readers_choice(browser: Any, tmp_path: Path, scheme: str) -> None:
    view, _ = opened(browser, draw(layout(parse(FIVE))).html(), tmp_path, color_scheme=scheme)
    ground = view.evaluate("getComputedStyle(document.querySelector('figure')).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}[scheme]


def test_an_index_of_another_tensor_is_told_apart_from_one_that_is_not_drawn(browser: Any, tmp_path: Path) -> None:
    view, _ = opened(browser, draw("[4, 6] on dp=2, tp=2: S(0), S(1)").html(), tmp_path)
    pick = view.get_by_label("Follow element")
    for typed, told in (
        ("3", "an element has 2 indices here"),
        ("3, 5", "on rank 3"),
        ("9, 9", "on no rank"),
        ("x", "an index is"),
    ):
        pick.fill(typed)
        assert told in view.locator(".found").first.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_story(browser: Any, tmp_path: Path, scheme: str) -> None:
    view, _ = opened(browser, draw(unshuffle(parse(FIVE))).html(), tmp_path, color_scheme=scheme, reduced_motion="reduce")
    assert grave(view) == []
    view.evaluate("document.querySelector('.play').removeAttribute('aria-label')")
    assert any(one.startswith("button-name") for one in grave(view))  # the check can fail


def grave(view: Any) -> list[str]:
    found = Axe().run(view, options={"resultTypes": ["violations"]}).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in ("serious", "critical")]
