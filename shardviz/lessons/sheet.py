"""A sheet to print: the questions that need no computer, with their pictures and room to write."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from shardviz.lessons.catalogue import IDS, NOTEBOOKS, find
from shardviz.lessons.notes import markup
from shardviz.lessons.questions import Ask
from shardviz.lessons.values import value_text

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["sheet_page"]


def sheet_page(seed: str, answers: bool) -> str:
    """The sheet as one HTML document.

    Args:
        seed: of the questions.
        answers: whether a last page has the answers.
    """
    from markupsafe import Markup  # comes with jinja2

    exercises = [exercise for exercise in map(find, IDS) if isinstance(exercise, Ask) and exercise.paper]
    questions = []
    for exercise in exercises:
        picture, target = exercise.picture(seed), exercise.right(exercise.given(seed))
        questions.append(
            {
                "title": exercise.title,
                "notebook": NOTEBOOKS[exercise.notebook],
                "words": Markup(markup(exercise.question(seed))),
                "picture": Markup(picture.svg()) if picture else "",
                "blanks": _blanks(target),
                "answer": value_text(target),
            }
        )
    return _template().render(seed=seed, questions=questions, answers=answers)


def _blanks(target: Any) -> list[str]:
    """What to write before each line of the room for an answer."""
    if isinstance(target, Mapping):
        return [str(key) for key in target]
    if isinstance(target, list):
        return [f"{place}." for place in range(1, len(target) + 1)]
    return ["ranks" if isinstance(target, Set) else "answer"]


@cache
def _template() -> Template:
    from jinja2 import Environment  # only sheets need it

    text = files("shardviz.lessons").joinpath("sheet.html").read_text("utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
