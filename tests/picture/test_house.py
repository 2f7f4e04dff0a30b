"""The rooms of the pictures: facts and parts below, one module per kind of picture that needs no other one, and no circle."""

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import shardviz.picture

PICTURES = {
    "answers",
    "scene_cards",
    "scene_chunks",
    "scene_layout",
    "scene_overview",
    "scene_recording",
    "scene_recording_overview",
    "scene_story",
    "scene_sweep",
}
PACKAGE = "shardviz.picture."


def imports(source: str) -> set[str]:
    """The modules of the package that a module imports, inside functions and for types too."""
    found = (node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    return {name.removeprefix(PACKAGE) for name in found if name.startswith(PACKAGE)}


def needs() -> dict[str, set[str]]:
    folder = Path(shardviz.picture.__file__).parent
    return {path.stem: imports(path.read_text("utf-8")) for path in folder.glob("*.py")}


def leaning(graph: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    return {(one, other) for one in PICTURES for other in graph[one] & PICTURES}


def test_no_picture_leans_on_another_and_there_is_no_circle() -> None:
    graph = needs()
    assert set(graph) >= PICTURES
    assert leaning(graph) == set()
    list(TopologicalSorter(graph).static_order())


def test_the_check_can_fail() -> None:
    lazy = imports("def f():\n    from shardviz.picture.scene_cards import cards_scene")
    assert leaning({**needs(), "scene_story": lazy}) == {("scene_story", "scene_cards")}
    with pytest.raises(CycleError):
        list(TopologicalSorter({**needs(), "scene": lazy}).static_order())
