"""Everything of the explorer in a real JupyterLab, as a person would use it, by mouse and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from .conftest import grave, open_notebook, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.ranks, pytest.mark.timeout(240)]

LOAD_MS, RUN_MS, SOON_MS = 60_000, 90_000, 10_000
FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
FOLDS = ("Guess first", "Compare the answers", "Sweep a size", "Audit this tensor", "Share")


@pytest.fixture(scope="module")
def page(lab, browser):
    """A notebook with nothing but the explorer; errors of the page itself fail the tests."""
    write_notebook(lab.root / "explorer.ipynb", "import shardviz as sv\n\nsv.explore()")
    context = browser.new_context(viewport={"width": 1500, "height": 1600}, reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(SOON_MS)
    open_notebook(page, lab, "explorer.ipynb", LOAD_MS, RUN_MS)
    yield page
    context.close()
    assert errors == []


@pytest.fixture(scope="module")
def explorer(page):
    return page.locator(".shardviz-explorer")


@pytest.fixture(autouse=True)
def at_the_start(page, explorer):
    """Every test begins with five elements, everything folded, nothing followed."""
    for title in FOLDS:
        fold(explorer, title, False)
    line = explorer.get_by_label("Spec", exact=True)
    line.fill(FIVE)
    line.blur()  # which has it read at once
    expect(explorer.get_by_label("Tensor shape")).to_have_value("5")
    explorer.get_by_label("Redistribute to").fill("")
    explorer.get_by_label("Redistribute to").blur()
    if explorer.get_by_role("button", name="Clear").is_visible():
        explorer.get_by_role("button", name="Clear").click()
    for said in (".sv-message", ".sv-sentence"):  # the kernel has heard of it
        expect(explorer.locator(f".sv-follow-area {said}")).to_be_hidden()
    explorer.get_by_role("radio", name="Predicted").check(force=True)
    yield
    assert explorer.get_by_role("alert").filter(visible=True).all_inner_texts() == []


def fold(explorer, title, wanted):
    details = explorer.locator("details.sv-panel", has=explorer.page.get_by_text(title, exact=True))
    if details.evaluate("element => element.open") != wanted:
        details.locator("summary").click()


def lit(explorer, where):
    """The spans of the cells that are lit in a part of the explorer."""
    return explorer.locator(f"{where} .cell.here[data-span]").evaluate_all(
        "cells => [...new Set(cells.map(cell => cell.dataset.span))]"
    )


def test_a_clicked_element_is_lit_everywhere_and_through_all_steps(page, explorer):
    explorer.locator(".widget-html [data-span='3 4']").click()
    expect(explorer.get_by_label("Follow element", exact=True)).to_have_value("3")
    expect(explorer.locator(".sv-follow-area .sv-sentence")).to_contain_text("Element 3: rank 1 holds it at local index 0.")
    assert lit(explorer, ".widget-html") == lit(explorer, ".sv-frame") == ["3 4"]
    explorer.get_by_label("Step of the story").focus()
    page.keyboard.press("End")
    expect(explorer.locator(".sv-frame .cell.here[data-span]")).to_have_count(4)
    assert lit(explorer, ".sv-frame") == ["3 4"]
    expect(explorer.locator(".sv-follow-area .sv-sentence")).to_contain_text("it lies at index 3 on ranks 0-3")
    explorer.locator(".sv-frame [data-span='1 2']").first.click()  # and from the story to the layout
    assert lit(explorer, ".widget-html") == ["1 2"]
    explorer.locator(".widget-html [data-span='1 2']").click()
    expect(explorer.locator("svg.following")).to_have_count(0)
    page.keyboard.press("Home")


def test_an_element_is_followed_by_keyboard_alone(page, explorer):
    field = explorer.get_by_label("Follow element", exact=True)
    field.focus()
    page.keyboard.type("4")
    expect(explorer.locator(".widget-html .cell.here[data-span]")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    expect(field).to_have_value("3")
    expect(explorer.locator(".widget-html .cell.here[data-span='3 4']")).to_be_visible()
    field.fill("77")
    expect(explorer.locator(".sv-follow-area .sv-message")).to_have_text("no element 77: the elements are 0 to 4")
    expect(explorer.locator("svg.following")).to_have_count(0)


def test_undo_and_redo_by_keys_and_by_buttons(page, explorer):
    line = explorer.get_by_label("Spec", exact=True)
    explorer.get_by_label("Example").select_option(label="A matrix cut both ways")
    expect(line).to_have_value("[4, 6] on dp=2, tp=2: S(0), S(1)")
    explorer.get_by_role("button", name="Next", exact=True).focus()
    page.keyboard.press("Control+z")
    expect(line).to_have_value(FIVE)
    page.keyboard.press("Control+Shift+z")
    expect(line).to_have_value("[4, 6] on dp=2, tp=2: S(0), S(1)")
    explorer.get_by_role("button", name="Undo").click()
    expect(line).to_have_value(FIVE)


def test_an_undo_inside_a_field_is_left_to_the_field(page, explorer):
    cell = page.locator(".jp-Cell .cm-content").first.inner_text()
    field = explorer.get_by_label("Tensor shape")
    field.press("End")
    field.press_sequentially("0")
    expect(explorer.get_by_label("Spec", exact=True)).to_have_value("[50] on dp=2, tp=2: _S(0, 2), S(0)")
    field.press("Control+z")
    field.press("Control+z")
    expect(explorer.get_by_role("button", name="Redo")).to_be_disabled()
    assert page.locator(".jp-Cell .cm-content").first.inner_text() == cell


def test_a_wrong_way_to_unshuffle_is_marked_and_counted(explorer):
    explorer.get_by_label("Tensor shape").fill("6")
    explorer.get_by_role("combobox", name="Unshuffle").select_option("torch-2.8")
    expect(explorer.locator(".sv-verdict")).to_contain_text("Wrong on 4 of 4 ranks: 2 of the 6 slots of rank 0")
    explorer.get_by_role("combobox", name="Unshuffle").select_option("exact")
    expect(explorer.locator(".sv-verdict")).to_have_text("")


def test_a_story_may_lead_elsewhere(explorer):
    explorer.get_by_label("Redistribute to").fill("R, S(0)")
    expect(explorer.locator(".sv-heading")).to_have_text("How the ranks come to R, S(0)")
    expect(explorer.get_by_role("combobox", name="Unshuffle")).to_be_hidden()
    explorer.get_by_label("Redistribute to").fill("R, S(9)")
    expect(explorer.locator(".sv-form .sv-message").filter(visible=True)).to_contain_text("tensor dimension 9 does not exist")


def test_a_guess_by_keyboard_and_its_comparison(page, explorer):
    fold(explorer, "Guess first", True)
    expect(explorer.locator(".widget-html")).to_be_hidden()
    explorer.get_by_label("Rank", exact=True).select_option("0")
    explorer.get_by_role("button", name="element 0", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(explorer.get_by_role("button", name="element 2", exact=True)).to_have_attribute("aria-pressed", "true")
    explorer.get_by_role("button", name="Reveal").click()
    expect(explorer.get_by_text("Rank 0 holds 0 1. Right: 0. Missed: 1. Extra: 2.")).to_be_visible()
    expect(explorer.get_by_role("button", name="element 1, missed")).to_have_text("○ 1")
    expect(explorer.locator(".widget-html")).to_be_visible()


def test_a_sweep_is_walked_by_its_slider(page, explorer):
    fold(explorer, "Sweep a size", True)
    slider = explorer.get_by_label("Size", exact=True)
    expect(slider).to_have_value("5")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("32")
    expect(explorer.get_by_label("Spec", exact=True)).to_have_value("[32] on dp=2, tp=2: _S(0, 2), S(0)")
    expect(explorer.get_by_text("Size 32: no slots of padding")).to_be_visible()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    expect(explorer.get_by_label("Spec", exact=True)).to_have_value("[2] on dp=2, tp=2: _S(0, 2), S(0)")


def test_the_audit_says_in_words_what_goes_wrong(explorer):
    explorer.get_by_label("Spec", exact=True).fill(NINE)
    fold(explorer, "Audit this tensor", True)
    expect(explorer.get_by_text(re.compile("^5 errors on torch"))).to_be_visible()
    expect(explorer.locator(".sv-entries li").first).to_contain_text("error checkpoint-loses-elements")


def test_a_text_is_shown_and_copied(page, explorer):
    fold(explorer, "Share", True)
    explorer.get_by_role("button", name="Copy line that restores this view").click()
    text = explorer.get_by_label("Text to copy")
    expect(text).to_have_value(f'sv.explore("{FIVE}")')
    expect(explorer.get_by_text("Line that restores this view: copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f'sv.explore("{FIVE}")'


def test_a_stop_during_the_start_of_the_ranks_works_at_once(explorer):
    explorer.get_by_role("button", name="Run on real ranks").click()
    stop = explorer.get_by_role("button", name="Stop")
    stop.click()
    expect(explorer.locator(".sv-progress")).to_have_text("The run was stopped.", timeout=2_000)
    expect(explorer.get_by_role("button", name="Run on real ranks")).to_be_enabled()


def test_a_press_takes_along_what_was_typed_just_before(explorer):
    burst = """root => {
        const line = root.querySelector(".sv-spec input");
        const type = (text, name) => { line.value = text; line.dispatchEvent(new Event(name)); };
        for (const size of [6, 7, 8, 10]) type(`[${size}] on dp=2: S(0)`, "change");
        type("[11] on dp=2: S(0)", "input");
        root.querySelector(".sv-run .sv-primary").click();
    }"""
    explorer.evaluate(burst)
    expect(explorer.locator(".sv-source")).to_contain_text("held by 2 gloo ranks", timeout=RUN_MS)
    expect(explorer.locator(".widget-html svg")).to_have_attribute("aria-label", re.compile("^\\[11\\] on dp=2"))


def test_a_press_after_nonsense_runs_nothing(explorer):
    explorer.evaluate("""root => {
        const line = root.querySelector(".sv-spec input");
        line.value = "nonsense";
        line.dispatchEvent(new Event("input"));
        root.querySelector(".sv-run .sv-primary").click();
    }""")
    expect(explorer.locator(".sv-failure")).to_contain_text("Not run: a spec begins with the global shape")
    expect(explorer.get_by_text(f"Still shown: {FIVE}.")).to_be_visible()
    explorer.get_by_role("button", name="Dismiss").click()
    explorer.get_by_role("button", name="Undo").click()
    expect(explorer.get_by_label("Spec", exact=True)).to_have_value(FIVE)


def test_a_long_text_in_a_field_moves_nothing_away(explorer):
    explorer.get_by_label("Follow element", exact=True).fill("y" * 20_000)
    message = explorer.locator(".sv-follow-area .sv-message")
    expect(message).to_be_visible()
    assert message.bounding_box()["height"] < 200


def test_real_answers_stand_side_by_side(explorer):
    explorer.get_by_role("button", name="Run on real ranks").click()
    fold(explorer, "Compare the answers", True)
    expect(explorer.locator(".sv-source")).to_contain_text("held by 4 gloo ranks", timeout=RUN_MS)
    expect(explorer.get_by_text("Predicted, reported, held and used agree.")).to_be_visible()
    explorer.get_by_label("Follow element", exact=True).fill("3")
    expect(explorer.locator(".sv-tells .cell.here[data-span]")).to_have_count(5)  # predicted, reported, held, and used by two


def test_a_redistribution_runs_on_real_ranks(explorer):
    explorer.get_by_label("Redistribute to").fill("R, S(0)")
    explorer.get_by_role("button", name="Run on real ranks").click()
    expect(explorer.locator(".sv-heading")).to_have_text("How torch comes to R, S(0)", timeout=RUN_MS)
    expect(explorer.locator(".sv-verdict")).to_have_text("Every rank ends with its part of the target.")


def test_the_keyboard_never_loses_its_place(page, explorer):
    def focused():
        return page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")

    explorer.get_by_role("button", name=re.compile("^7. ")).click()
    next_step = explorer.get_by_role("button", name="Next", exact=True)
    next_step.focus()
    page.keyboard.press("Enter")
    expect(next_step).to_be_disabled()
    assert focused() == "Next"
    explorer.get_by_label("Spec", exact=True).fill("[3] on dp=2, tp=2, pp=2: S(0), R, R")
    remove = explorer.get_by_role("button", name="Remove mesh dimension 3")
    remove.focus()
    page.keyboard.press("Enter")
    expect(remove).to_have_count(0)
    assert focused() == "Add mesh dimension"
    explorer.get_by_label("Follow element", exact=True).fill("2")
    explorer.get_by_role("button", name="Clear").focus()
    page.keyboard.press("Enter")
    expect(explorer.get_by_label("Follow element", exact=True)).to_be_focused()
    explorer.get_by_label("Spec", exact=True).fill("[7] on dp=7: S(0)")  # more ranks than are warm: their start takes seconds
    run = explorer.get_by_role("button", name="Run on real ranks")
    run.focus()
    page.keyboard.press("Enter")
    expect(explorer.get_by_role("button", name="Stop")).to_be_focused()
    page.keyboard.press("Enter")
    expect(run).to_be_focused()


OUTSIDE = """root => {
    const edge = root.querySelector(".shardviz-grid").getBoundingClientRect().right;
    const shown = [...root.querySelectorAll("button, input, select, label, p:not(:empty)")].filter((e) => e.offsetParent);
    return shown.filter((e) => !e.closest(".sv-pane, .sv-cells, .sv-unseen") && e.getBoundingClientRect().right > edge)
        .map((e) => e.outerHTML);
}"""


def test_nothing_is_out_of_reach_on_a_narrow_page(page, explorer):
    for title in FOLDS[1:]:
        fold(explorer, title, True)
    expect(explorer.get_by_label("Size", exact=True)).to_be_visible()
    wide = page.viewport_size
    page.set_viewport_size({"width": 600, "height": 1600})
    try:
        page.wait_for_function("document.querySelector('.shardviz-grid').clientWidth < 300")
        assert explorer.evaluate(OUTSIDE) == []
        page.add_style_tag(content=".sv-run .sv-primary { min-width: 600px !important }")
        assert explorer.evaluate(OUTSIDE) != [], "it would be seen"
    finally:
        page.locator("head style").last.evaluate("style => style.remove()")
        page.set_viewport_size(wide)


def test_axe_finds_nothing_serious_with_everything_unfolded(page, explorer):
    explorer.get_by_label("Spec", exact=True).fill(NINE)
    explorer.get_by_label("Follow element", exact=True).fill("8")
    for title in FOLDS[1:]:
        fold(explorer, title, True)
    explorer.get_by_role("button", name="Copy notation").click()
    expect(explorer.get_by_label("Text to copy")).to_be_visible()
    assert grave(page) == []
    fold(explorer, "Guess first", True)
    expect(explorer.locator(".widget-html")).to_be_hidden()
    assert grave(page) == []


def test_axe_would_find_a_nameless_button(page, explorer):
    explorer.locator(".sv-history").evaluate("place => place.insertAdjacentHTML('beforeend', '<button id=bad></button>')")
    try:
        assert any("button-name" in one for one in grave(page))
    finally:
        page.locator("#bad").evaluate("bad => bad.remove()")


def test_a_saved_page_lives_on_when_the_kernel_is_gone(lab, browser, page, explorer):
    fold(explorer, "Share", True)
    explorer.get_by_label("File name").fill("kept")
    explorer.get_by_role("button", name="Save story as a page").click()
    expect(explorer.get_by_text(re.compile("^Written to .*kept-page.html$"))).to_be_visible()
    explorer.get_by_role("button", name="Save story as a page").click()
    expect(explorer.get_by_text("kept-page.html is there already")).to_be_visible()
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()
    page.get_by_text("No Kernel").first.wait_for()
    saved = browser.new_page()
    saved.route(re.compile("^https?:"), lambda route: route.abort())
    saved.goto((lab.root / "kept-page.html").as_uri())
    expect(saved.locator("[data-player] .count")).to_have_text("1 of 8")
    saved.get_by_role("button", name="Play").first.focus()
    saved.keyboard.press("ArrowRight")
    expect(saved.locator("[data-player] .count")).to_have_text("2 of 8")
    saved.close()
