"""The first notebook in a real JupyterLab, used as a person would use it."""

import re

import pytest
from playwright.sync_api import expect

from .conftest import open_notebook

pytestmark = [pytest.mark.browser, pytest.mark.ranks, pytest.mark.timeout(240)]

LOAD_MS, RUN_MS, SOON_MS = 60_000, 90_000, 10_000
expect.set_options(timeout=SOON_MS)
NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"


@pytest.fixture(scope="module")
def page(lab, browser):
    """The notebook after Run All; what the page itself reports as errors fails the tests."""
    page = browser.new_page(viewport={"width": 1500, "height": 1150})
    page.set_default_timeout(SOON_MS)
    open_notebook(page, lab, "01-start-here.ipynb", LOAD_MS, RUN_MS)
    yield page
    page.close()


@pytest.fixture(scope="module")
def explorer(page):
    """The explorer on the page."""
    found = page.locator(".shardviz-explorer")
    found.scroll_into_view_if_needed()
    return found


@pytest.fixture(autouse=True)
def nothing_failed(explorer):
    """After every test the error panel is empty."""
    yield
    assert explorer.get_by_role("alert").filter(visible=True).all_inner_texts() == []


def picture(explorer):
    """What the picture of the step says to those who do not see it."""
    return explorer.locator(".sv-frame svg").get_attribute("aria-label")


def wait_for_step(explorer, number):
    expect(explorer.get_by_label("Step of the story")).to_have_value(str(number))
    expect(explorer.locator(".sv-steps [aria-current=step]")).to_have_text(re.compile(f"^{number + 1}"))
    # A frame is drawn when it is first looked at: until it has come, the one before is shown.
    expect(explorer.locator(".sv-frame svg")).to_have_attribute("aria-label", re.compile(f"\n{number + 1}\\. "))


def test_the_notebook_ran_without_errors(page):
    assert page.locator(".jp-Notebook .jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0


def test_the_story_moves_by_keyboard_and_by_buttons(page, explorer):
    slider = explorer.get_by_label("Step of the story")
    start = picture(explorer)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    wait_for_step(explorer, 2)
    gathered = picture(explorer)
    assert gathered != start
    assert "all-gather over tp" in gathered
    explorer.get_by_role("button", name="Next").click()
    wait_for_step(explorer, 3)
    assert picture(explorer) != gathered
    explorer.get_by_role("button", name="Back").click()
    wait_for_step(explorer, 2)
    assert picture(explorer) == gathered
    explorer.get_by_role("button", name=re.compile("unshuffle")).click()
    wait_for_step(explorer, 7)
    expect(explorer.locator(".sv-stage [aria-live]")).to_contain_text("Step 8 of 8, unshuffle.")
    page.keyboard.press("ArrowLeft")
    wait_for_step(explorer, 6)
    explorer.get_by_role("button", name="First step").click()
    wait_for_step(explorer, 0)


def test_the_story_plays_and_pauses(explorer):
    explorer.get_by_role("button", name="Play").click()
    wait_for_step(explorer, 1)
    explorer.get_by_role("button", name="Pause").click()
    expect(explorer.get_by_role("button", name="Play")).to_be_visible()


def test_a_burst_of_keys_ends_on_the_right_frame(page, explorer):
    explorer.get_by_label("Step of the story").focus()
    page.keyboard.press("Home")
    for key in ["ArrowRight"] * 24 + ["ArrowLeft"] * 6 + ["ArrowRight"] * 3:  # 7 is the last one
        page.keyboard.press(key)
    wait_for_step(explorer, 4)
    assert "5. pad over dp" in picture(explorer)


def test_typing_in_the_explorer_commands_nothing_in_the_notebook(page, explorer):
    cells = page.locator(".jp-Cell").count()
    explorer.get_by_role("button", name="Next").focus()
    for key in "ddxab":
        page.keyboard.press(key)
    assert page.locator(".jp-Cell").count() == cells
    expect(explorer.get_by_role("button", name="Next")).to_be_focused()


def test_nonsense_gets_its_message_beside_the_field_and_the_picture_stays(explorer):
    before = picture(explorer)
    field = explorer.get_by_label("Spec", exact=True)
    good = field.input_value()
    field.fill("nonsense")
    message = explorer.locator(".sv-spec .sv-message")
    expect(message).to_contain_text("a spec begins with the global shape in brackets")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(explorer.get_by_role("button", name="Run on real ranks")).to_be_disabled()
    assert picture(explorer) == before
    box, below = field.bounding_box(), message.bounding_box()
    assert 0 <= below["y"] - (box["y"] + box["height"]) < 12
    field.fill(good)
    expect(message).to_be_hidden()


def test_the_fields_and_the_line_follow_each_other(explorer):
    line = explorer.get_by_label("Spec", exact=True)
    explorer.get_by_label("Tensor shape").fill("6")
    expect(line).to_have_value("[6] on dp=2, tp=2: _S(0, 2), S(0)")
    explorer.get_by_role("button", name="Add mesh dimension").click()
    expect(line).to_have_value("[6] on dp=2, tp=2, pp=2: _S(0, 2), S(0), R")
    explorer.get_by_role("button", name="Remove mesh dimension 3").click()
    line.fill("[5] on dp=2, tp=2: _S(0, 2), S(0)")
    expect(explorer.get_by_label("Tensor shape")).to_have_value("5")
    expect(explorer.get_by_label("Placement of mesh dimension 1")).to_have_value("_S(0, 2)")
    expect(explorer.get_by_label("Placement of mesh dimension 3")).to_have_count(0)


def test_real_ranks_run_on_a_press(explorer):
    explorer.get_by_role("button", name="Run on real ranks").click()
    expect(explorer.get_by_role("button", name="Stop")).to_be_visible()
    source = "held by 4 gloo ranks"
    expect(explorer.locator(".sv-source")).to_contain_text(source, timeout=RUN_MS)
    expect(explorer.locator(".sv-verdict")).to_contain_text("All answers agree")
    expect(explorer.locator(".sv-frame svg")).to_have_attribute("aria-label", re.compile(source))


def test_a_run_can_be_stopped(explorer):
    explorer.get_by_label("Spec", exact=True).fill(NINE)
    expect(explorer.locator(".sv-hint").filter(has_text="Not run yet")).to_be_visible()
    explorer.get_by_role("button", name="Run on real ranks").click()
    explorer.get_by_role("button", name="Stop").click()
    expect(explorer.locator(".sv-progress")).to_contain_text("The run was stopped", timeout=RUN_MS)
    expect(explorer.get_by_role("button", name="Run on real ranks")).to_be_enabled()


def test_more_ranks_are_started_when_the_mesh_needs_them(explorer):
    explorer.get_by_role("button", name="Run on real ranks").click()
    expect(explorer.locator(".sv-source")).to_contain_text("held by 8 gloo ranks", timeout=RUN_MS)
    expect(explorer.locator(".sv-differences li").first).to_be_visible()


def test_everything_to_press_or_fill_has_a_name(explorer):
    nameless = explorer.evaluate(
        """root => [...root.querySelectorAll("button, input, select, progress")]
            .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))
            .map(e => e.outerHTML)"""
    )
    assert nameless == []
