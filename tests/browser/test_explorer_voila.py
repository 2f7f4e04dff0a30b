"""The explorer as a page without code, which voila serves."""

import re

import pytest
from playwright.sync_api import expect

from .conftest import grave

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LOAD_MS, SOON_MS = 60_000, 10_000
VIEW = "?spec=%5B6%5D+on+dp%3D2%2C+tp%3D2%3A+_S%280%2C+2%29%2C+S%280%29&method=torch-2.8&follow=4&step=3"


@pytest.fixture(scope="module")
def page(voila, browser):
    """A visitor with a link; what the page asks of other machines fails the tests."""
    page = browser.new_page(viewport={"width": 1300, "height": 1500})
    page.set_default_timeout(SOON_MS)
    elsewhere = []
    page.on("request", lambda asked: elsewhere.append(asked.url) if re.match("https?://(?!127.0.0.1)", asked.url) else None)
    page.goto(f"{voila.url}{VIEW}", timeout=LOAD_MS)
    page.wait_for_selector(".shardviz-explorer .sv-frame svg", timeout=LOAD_MS)
    yield page
    page.close()
    assert [url for url in elsewhere if "shardviz" in url or "anywidget" in url] == []


@pytest.fixture(scope="module")
def explorer(page):
    return page.locator(".shardviz-explorer")


def test_a_link_opens_its_view(explorer):
    expect(explorer.get_by_label("Spec", exact=True)).to_have_value("[6] on dp=2, tp=2: _S(0, 2), S(0)")
    expect(explorer.get_by_role("combobox", name="Unshuffle")).to_have_value("torch-2.8")
    expect(explorer.get_by_label("Step of the story")).to_have_value("3")
    expect(explorer.locator(".sv-follow-area .sv-sentence")).to_contain_text("Element 4:")
    expect(explorer.locator(".widget-html .cell.here[data-span]")).to_have_count(1)


def test_the_question_changes_without_code_in_sight(page, explorer):
    assert page.get_by_text("import shardviz").count() == 0
    explorer.get_by_label("Tensor shape").fill("7")
    expect(explorer.locator(".widget-html svg")).to_have_attribute("aria-label", re.compile("^\\[7\\] on"))
    explorer.get_by_role("button", name="Undo").click()
    expect(explorer.get_by_label("Tensor shape")).to_have_value("6")


def test_a_burst_of_keys_ends_on_the_right_frame(page, explorer):
    explorer.get_by_role("combobox", name="Unshuffle").select_option("exact")
    expect(explorer.locator(".sv-verdict")).to_have_text("")
    explorer.get_by_label("Step of the story").focus()
    for key in ["Home"] + ["ArrowRight"] * 29:
        page.keyboard.press(key)
    expect(explorer.locator(".sv-count")).to_have_text("6 / 6")
    expect(explorer.locator(".sv-frame svg")).to_have_attribute("aria-label", re.compile("6. unshuffle"))


def test_a_file_is_a_download(page, explorer):
    explorer.get_by_text("Share", exact=True).click()
    with page.expect_download() as download:
        explorer.get_by_role("button", name="Save layout as SVG").click()
    assert download.value.suggested_filename == "shardviz-layout.svg"
    expect(explorer.get_by_text("Your browser saves shardviz-layout.svg.")).to_be_visible()


def test_axe_finds_nothing_serious(page, explorer):
    for title in ("Compare the answers", "Sweep a size", "Audit this tensor"):
        explorer.get_by_text(title, exact=True).click()
    expect(explorer.get_by_label("Size", exact=True)).to_be_visible()
    assert grave(page) == []
