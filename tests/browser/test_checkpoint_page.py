"""The page of a checkpoint in a real browser, without a network: its filter, its maps, and that anyone can use it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from shardviz.checks.checkpoints.checkpoint import checkpoint
from tests.checks import saved

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=\"document.title='broken'\"></script><script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty tensors, one of them with markup for a name, and three whose last elements are not where they are promised."""
    place = tmp_path_factory.mktemp("pages")
    saved.save(place / "ck", {EVIL: torch.ones(3), **{f"layer.{n}.weight": torch.ones(4, 2 + n) for n in range(29)}})
    tree = saved.metadata(place / "ck")
    for n in (3, 7, 11):
        entry = tree.state_dict_metadata[f"layer.{n}.weight"]
        entry.size = torch.Size([5, 2 + n])
        entry.chunks[0].sizes = torch.Size([5, 2 + n])
    saved.write_metadata(place / "ck", tree)
    return checkpoint(place / "ck").save(place / "map.html")


def opened(browser: Any, path: Path, **options: Any) -> tuple[Any, list[str]]:
    """The page, and every error and request that it makes."""
    view = browser.new_context(offline=True, **options).new_page()
    noise: list[str] = []
    view.on("pageerror", lambda error: noise.append(str(error)))
    view.on("console", lambda message: noise.append(message.text))
    view.on("request", lambda request: noise.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    view.goto(path.as_uri())
    return view, noise


def test_the_broken_tensors_are_found_with_the_keyboard(browser: Any, many: Path) -> None:
    view, noise = opened(browser, many)
    rows = view.locator("section", has=view.get_by_role("heading", name="Tensors")).locator("tbody tr:visible")
    view.keyboard.press("Tab")
    view.keyboard.type("not whole")
    assert rows.locator("th").all_inner_texts() == [f"layer.{n}.weight" for n in (3, 7, 11)]
    assert view.locator(".kept").first.inner_text() == "3 of 30 rows"
    view.keyboard.press("Control+A")
    view.keyboard.type("LAYER.2")
    assert rows.count() == 10  # 2, and 20 to 28
    view.keyboard.press("Escape")
    assert rows.count() == 30
    assert noise == []


def test_the_broken_tensors_are_drawn_first_and_the_page_says_what_is_not(browser: Any, many: Path) -> None:
    view, _ = opened(browser, many)
    labels = [figure.get_attribute("aria-label") for figure in view.locator("figure svg[role=img]").all()]
    assert labels[:3] == [f"layer.{n}.weight" for n in (3, 7, 11)]
    assert len(labels) == 24
    assert "24 of 30 tensors, 3 broken tensors and the largest" in view.locator("main").inner_text()


def test_names_with_markup_stay_text(browser: Any, many: Path) -> None:
    view, noise = opened(browser, many)
    assert view.title() == "Checkpoint ck"
    assert view.locator("tbody th", has_text="onerror").first.inner_text() == EVIL
    assert view.locator("img").count() == 0
    assert noise == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 700])
def test_nothing_serious_stands_in_anyones_way(browser: Any, many: Path, scheme: str, width: int) -> None:
    view, _ = opened(browser, many, color_scheme=scheme, viewport={"width": width, "height": 900})
    found = [v for v in Axe().run(view).response["violations"] if v["impact"] in ("serious", "critical")]
    assert [(violation["id"], [node["target"] for node in violation["nodes"]][:3]) for violation in found] == []
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth"), "only tables and pictures scroll sideways"


def test_a_hindrance_would_be_seen(browser: Any, many: Path) -> None:
    view, _ = opened(browser, many)
    view.evaluate(
        "document.querySelectorAll('label').forEach((label) => label.replaceWith(...label.querySelectorAll('input')))"
    )
    view.evaluate("document.querySelectorAll('input').forEach((input) => input.removeAttribute('placeholder'))")
    assert "label" in {violation["id"] for violation in Axe().run(view).response["violations"]}
