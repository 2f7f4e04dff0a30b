"""A lesson in a real JupyterLab, worked through as a person would: the stub, a wrong answer, a hint, the right answer."""

import re

import pytest
from playwright.sync_api import expect

from shardviz import lessons

from .conftest import open_notebook

pytestmark = [pytest.mark.browser, pytest.mark.ranks, pytest.mark.timeout(240)]

LOAD_MS, RUN_MS, CELL_MS = 60_000, 90_000, 30_000
WRONG = "def unpad(gathered, sizes):\n    return gathered[:sum(sizes)]\n\n\nlessons.check('unpad', unpad)"
RIGHT = """def unpad(gathered, sizes):
    width = max(sizes)
    return [element for i, size in enumerate(sizes) for element in gathered[i * width : i * width + size]]


lessons.check('unpad', unpad)"""


@pytest.fixture(scope="module")
def page(lab, browser):
    """The notebook of the unshuffle, after Run All."""
    page = browser.new_page(viewport={"width": 1300, "height": 1100})
    open_notebook(page, lab, "04-the-unshuffle.ipynb", LOAD_MS, RUN_MS, ".jp-OutputArea-output svg")
    yield page
    page.close()


def cell_with(page, text):
    """The first cell with a text; it stays the same one when the text changes."""
    found = page.locator(".jp-CodeCell").filter(has=page.locator(".cm-content", has_text=text)).first
    found.evaluate("cell => cell.id = 'the-exercise'")
    return page.locator("#the-exercise")


def answer(page, cell, code):
    """Replace what a cell says, and run it."""
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(code)
    page.keyboard.press("Control+Enter")


def test_an_exercise_from_its_stub_to_the_right_answer(page):
    cell = cell_with(page, "def unpad(")
    cell.scroll_into_view_if_needed()
    said = cell.locator(".shardviz-lesson")
    expect(said).to_contain_text("Still the stub")
    answer(page, cell, WRONG)
    expect(said).to_contain_text("Not yet.", timeout=CELL_MS)
    expect(said).to_contain_text("You take all padding to be at the end.")
    expect(said.get_by_role("img").first).to_have_attribute("aria-label", re.compile("target .*; yours "))
    answer(page, cell, 'lessons.hint("unpad")')
    expect(said).to_contain_text("Hint 1 of 3", timeout=CELL_MS)
    answer(page, cell, RIGHT)
    expect(said).to_contain_text("Right, on all", timeout=CELL_MS)
    answer(page, cell, "lessons.progress()")
    row = said.get_by_role("row").filter(has_text="unpad")
    expect(row).to_contain_text("solved", timeout=CELL_MS)


def test_the_notebook_ran_without_errors(page):
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0


def test_the_answers_above_are_what_they_are_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDVIZ_PROGRESS", str(tmp_path))
    for code, right in ((WRONG, False), (RIGHT, True)):
        names = {"lessons": lessons}
        exec(code.partition("lessons.check")[0], names)
        assert bool(lessons.check("unpad", names["unpad"])) is right
