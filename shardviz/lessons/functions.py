"""Exercises whose answer is a function: it is run on cases, and the first failing one is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from shardviz.lessons.exercise import Beyond, Exercise, Finding
from shardviz.lessons.running import PATIENCE, Ran, run_cases
from shardviz.lessons.values import call_text, differing, same, value_text
from shardviz.picture import Picture

__all__ = ["Code"]


@dataclass(frozen=True, kw_only=True)
class Code(Exercise):
    """A function to write, on plain Python values.

    Attributes:
        signature: of the function.
        examples: the arguments that the text shows, tried first.
        generate: further cases, from a source of chance; they are tried smallest first.
        draw: a picture of a case: what is wanted, and beside it what was answered, if anything.
        beyond: a target to beat.
    """

    signature: str
    examples: tuple[tuple[Any, ...], ...]
    generate: Callable[[Random], Iterable[tuple[Any, ...]]]
    draw: Callable[[tuple[Any, ...], Any, Any], Picture | None] = field(default=lambda arguments, target, yours: None)
    beyond: Beyond | None = None

    def cases(self, seed: str) -> list[tuple[Any, ...]]:
        """The arguments of every case: the visible ones, then the generated ones from small to large."""
        return [*self.examples, *sorted(self.generate(self.random(seed)), key=_size)]

    def task(self, seed: str) -> str:
        """The task with the signature and the examples."""
        shown = [f"{call_text(self.name, case)}  →  {value_text(self.right(*case))}" for case in self.examples]
        return "\n".join([self.text.strip(), "", "```", f"def {self.signature}", "", *shown, "```"])

    def picture(self, seed: str) -> Picture | None:
        """The first example."""
        return self.draw(self.examples[0], self.right(*self.examples[0]), None)

    def given(self, seed: str) -> Any:
        """Nothing."""
        return None

    def judge(self, answer: Any, seed: str, patience: float = PATIENCE) -> Finding:
        """Run a function on every case."""
        if answer is None or answer is ...:
            return Finding("stub", f"there is no function yet; `{self.name}` is to be written.")
        if not callable(answer):
            return Finding(
                "not yet", f'Hand over the function itself, without calling it: `lessons.check("{self.id}", {self.name})`.'
            )
        cases = self.cases(seed)
        rans = run_cases(answer, cases, patience)
        targets = [self.right(*case) for case in cases]
        for case, target, ran in zip(cases, targets, rans, strict=False):
            if ran.how != "returned" or not same(target, ran.value):
                return self._failed(case, target, ran, cases, rans)
        if len(rans) < len(cases):
            return Finding("not yet", "The cases took too long, all together.")
        return self._mastered(answer, len(cases), patience)

    def _mastered(self, answer: Callable[..., Any], count: int, patience: float) -> Finding:
        sentence = f"Right, on all {count} cases."
        if self.beyond is None:
            return Finding("right", sentence)
        (ran,) = run_cases(answer, [self.beyond.arguments], min(patience, 1.0))
        won = ran.how == "returned" and same(self.right(*self.beyond.arguments), ran.value)
        return Finding("right", sentence, score=self.beyond.won if won else self.beyond.open, beaten=won)

    def _failed(self, case: Any, target: Any, ran: Ran, cases: Sequence[Any], rans: Sequence[Ran]) -> Finding:
        call = call_text(self.name, case)
        if ran.stub:
            return Finding("stub", f"`{self.name}` raises NotImplementedError. Replace that line with your own.")
        if ran.how == "returned" and ran.value in (None, ...) and ran is rans[0]:
            return Finding("stub", f"`{call}` gives {value_text(ran.value)}. If you wrote it already: is a `return` missing?")
        finding = Finding("not yet", "", call, value_text(target), line=ran.line, printed=ran.printed)
        if ran.how == "raised":
            return replace(finding, sentence=f"`{call}` raised an exception.", error=ran.error)
        if ran.how == "hung":
            return replace(finding, sentence=f"`{call}` did not come back in time and was stopped.")
        if ran.how == "died":
            return replace(finding, sentence=f"`{call}` did not come back: {ran.error}.")
        return replace(
            finding,
            sentence=f"`{call}` is not right.",
            yours=value_text(tuple(ran.value) if isinstance(target, tuple) and isinstance(ran.value, list) else ran.value),
            advice=self._recognised(cases, rans) or differing(target, ran.value),
            picture=self.draw(case, target, ran.value),
        )

    def _recognised(self, cases: Sequence[Any], rans: Sequence[Ran]) -> str:
        """What to say to an answer that is a known wrong one, on every case that was run."""
        for mistake in self.mistakes:
            if all(ran.how == "returned" and mistake.gives(case, ran.value) for case, ran in zip(cases, rans, strict=False)):
                return mistake.sentence
        return ""


def _size(value: Any) -> int:
    """How large a case is: its numbers, and the lengths of its lists."""
    if isinstance(value, tuple):
        return sum(map(_size, value))
    if isinstance(value, list):
        return len(value) + sum(_size(item) for item in value if isinstance(item, list))
    if isinstance(value, dict):
        return len(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
