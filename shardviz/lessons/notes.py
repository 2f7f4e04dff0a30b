"""What a notebook shows: words, with a picture; the same words in a terminal."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from shardviz.lessons.exercise import Finding, State
from shardviz.picture import Picture

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = ["Note", "Verdict", "markup", "verdict"]

Tone: TypeAlias = Literal["task", "right", "not yet", "quiet"]

TONES: dict[Tone, str] = {"task": "#0072b2", "right": "#009e73", "not yet": "#e69f00", "quiet": "#8a94a3"}
"""The bar at a note's left; red is not among them, for it means one thing alone."""


@dataclass(frozen=True, repr=False)
class Note:
    """Words in Markdown, and a picture below them.

    Attributes:
        words: the text.
        picture: shown below it.
        tone: what kind of note it is, for its colour.
    """

    words: str
    picture: Picture | None = field(default=None, repr=False)
    tone: Tone = "quiet"

    def __str__(self) -> str:
        return self.words if self.picture is None else f"{self.words}\n\n{self.picture.text}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        drawn = "" if self.picture is None else f'<div style="overflow-x:auto;margin-top:.6em">{self.picture.markup()}</div>'
        bar = f"border-left:4px solid {TONES[self.tone]};padding:.1em 0 .1em 1em;margin:.3em 0;max-width:68em"
        return f'<div class="shardviz-lesson" style="{bar}">{markup(self.words)}{drawn}</div>'


@dataclass(frozen=True, repr=False)
class Verdict(Note):
    """What came of a check. True where the answer is right.

    Attributes:
        id: the exercise.
        finding: what was found.
    """

    id: str = ""
    finding: Finding = field(default=Finding("stub"), repr=False)

    def __bool__(self) -> bool:
        return self.finding.state == "right"


def verdict(name: str, finding: Finding, more: str) -> Verdict:
    """A finding in words.

    Args:
        name: the exercise's id.
        finding: what was found.
        more: paragraphs that follow: praise, where hints are to be had, what is wrong with the progress file.
    """
    head = {"right": "✓", "so far": "✓", "not yet": "**Not yet.**", "stub": "**Still the stub:**"}[finding.state]
    parts = [f"{head} {finding.sentence}".strip()]
    if finding.state != "stub":
        rows = [
            ("should give", finding.target),
            ("gives", finding.yours),
            ("raises", finding.error),
            ("your line", finding.line),
        ]
        lines = [
            f"- {what} `{_code(value)}`" for what, value in rows if value and not (what == "should give" and not finding.call)
        ]
        if finding.call or finding.line or finding.error:
            parts.append("\n".join(lines))
        parts.append(finding.advice)
        if finding.printed:
            parts.append(f"It printed:\n\n```\n{finding.printed.rstrip()}\n```")
    parts += [finding.score, more]
    tones: dict[State, Tone] = {"right": "right", "so far": "right", "not yet": "not yet", "stub": "quiet"}
    return Verdict("\n\n".join(filter(None, parts)), finding.picture, tones[finding.state], name, finding)


def markup(words: str) -> str:
    """Markdown as HTML; HTML in it stays text."""
    return str(_reader().render(words))


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _code(text: str) -> str:
    """Text that can stand between backticks."""
    return text.replace("`", "'").replace("\n", " ")
