"""Exercises whose answer is a value: a seed varies what is given, and only what is wrong is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from shardviz.lessons.exercise import Exercise, Finding
from shardviz.lessons.running import PATIENCE
from shardviz.lessons.values import differing, not_it, open_parts, plain, same, value_text
from shardviz.picture import Picture

__all__ = ["Ask"]

ANEW = 50
"""How often a question is posed anew, so that no usual mistake is right."""


@dataclass(frozen=True, kw_only=True)
class Ask(Exercise):
    """A question that a seed varies, answered with values.

    Attributes:
        pose: what is given, from a source of chance; `right` and the mistakes' answers take it.
        words: what the text's placeholders stand for.
        draw: a picture of what is given.
        machine: what to use a computer for, in Markdown.
        paper: whether it can be answered on paper.
    """

    pose: Callable[[Random], Any]
    words: Callable[[Any], dict[str, Any]] = field(default=lambda given: {})
    draw: Callable[[Any], Picture | None] = field(default=lambda given: None)
    machine: str = ""
    paper: bool = True

    def given(self, seed: str) -> Any:
        """What the question is about; where a usual mistake would happen to be right, another is posed."""
        random = self.random(seed)
        posed = self.pose(random)
        for _ in range(ANEW):
            target = plain(self.right(posed))
            if not any(mistake.gives((posed,), target) for mistake in self.mistakes):
                break
            posed = self.pose(random)
        return posed

    def task(self, seed: str) -> str:
        """The question, its placeholders filled, and what to use a computer for."""
        return "\n\n".join(filter(None, [self.question(seed), self.machine.strip()]))

    def question(self, seed: str) -> str:
        """The question, its placeholders filled."""
        return self.text.strip().format(**self.words(self.given(seed)))

    def picture(self, seed: str) -> Picture | None:
        """The picture that the question is about."""
        return self.draw(self.given(seed))

    def judge(self, answer: Any, seed: str, patience: float = PATIENCE) -> Finding:
        """Compare values; what is right is not told, only which parts are not."""
        yours = plain(answer)
        still = open_parts(yours)
        if still is None:
            return Finding("stub", "nothing is answered yet; put values where the dots are.")
        given = self.given(seed)
        target = self.right(given)
        if same(target, yours):
            return Finding("right", "Right.")
        if still:
            return Finding("not yet", f"Still open: {', '.join(still)}.", yours=value_text(yours))
        known = next((m.sentence for m in self.mistakes if m.gives((given,), yours)), "")
        sentence = "Not all of it is right." if isinstance(target, list | dict) else "That is not it."
        return Finding("not yet", sentence, yours=value_text(yours), advice=known or self.wrong(target, yours))

    def wrong(self, target: Any, yours: Any) -> str:
        """Which parts of an answer are wrong, without saying what would be right."""
        if isinstance(target, list) and isinstance(yours, list) and len(target) == len(yours):
            wrong = [i for i, pair in enumerate(zip(target, yours, strict=True)) if not same(*pair)]
            right = len(target) - len(wrong)
            first = f"number {wrong[0] + 1}, {value_text(yours[wrong[0]])}"
            return f"{right} of {len(target)} are right; the first wrong one is {first}."
        if isinstance(target, Mapping) and isinstance(yours, Mapping) and set(target) == set(yours):
            wrong = [key for key in target if not same(target[key], yours[key])]
            return "; ".join(f"{key!r} is {not_it(target[key], yours[key])}" for key in wrong) + "."
        if isinstance(target, Mapping | list):  # of the answer's form alone: its keys, its length
            return differing(target, yours)
        return f"It is {not_it(target, yours)}."
