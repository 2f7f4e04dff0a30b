"""What an exercise is: its words, its cases, and how an answer is judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias

from shardviz.lessons.running import PATIENCE
from shardviz.lessons.values import plain, same
from shardviz.picture import Picture

__all__ = ["Beyond", "Exercise", "Finding", "Mistake", "State"]

State: TypeAlias = Literal["right", "so far", "not yet", "stub"]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give, and what to say to it.

    Attributes:
        answer: gives it, from the arguments that the right answer would be given.
        sentence: what is wrong with the thought behind it.
    """

    answer: Callable[..., Any]
    sentence: str

    def gives(self, case: Sequence[Any], value: Any) -> bool:
        """Whether it leads to a plain value; of sets, either may be one."""
        try:
            wrong = plain(self.answer(*case))
        except (ArithmeticError, LookupError, ValueError, TypeError):  # a wrong function may well raise
            return False
        return same(wrong, value) or same(value, wrong)


@dataclass(frozen=True)
class Beyond:
    """A target to beat once an answer is right: one more case, which only a better answer masters.

    Attributes:
        arguments: of the case.
        won: what to say where it is mastered.
        open: what to say where it is not.
    """

    arguments: tuple[Any, ...]
    won: str
    open: str


@dataclass(frozen=True)
class Finding:
    """What was found about an answer.

    Attributes:
        state: right; right so far, with more to do; not yet; or the stub.
        sentence: what is the matter.
        call: the first failing case, as a call.
        target: what it should give.
        yours: what it gives.
        error: what it raised.
        advice: what to think about: where the wrong answer is a known one, what is wrong with the thought behind it.
        line: the line of the person's code on which it failed.
        printed: what their function printed.
        picture: the target beside the answer.
        score: how far the answer is from a target to beat.
        beaten: whether that target was reached.
    """

    state: State
    sentence: str = ""
    call: str = ""
    target: str = ""
    yours: str = ""
    error: str = ""
    advice: str = ""
    line: str = ""
    printed: str = ""
    picture: Picture | None = None
    score: str = ""
    beaten: bool = False


@dataclass(frozen=True, kw_only=True)
class Exercise(ABC):
    """One exercise.

    Attributes:
        id: its name.
        notebook: the number of the notebook it stands in.
        title: a few words.
        text: the task, in Markdown.
        stub: what stands in the notebook until it is solved.
        hints: from a nudge to nearly everything.
        right: the right answer, from the core's arithmetic.
        done: what to say to somebody who solved it.
        mistakes: wrong answers that people give.
    """

    id: str
    notebook: int
    title: str
    text: str
    stub: str
    hints: tuple[str, ...]
    right: Callable[..., Any]
    done: str
    mistakes: tuple[Mistake, ...] = ()

    @property
    def name(self) -> str:
        """The id as a name in Python: that of the function to write, and of the file with the solution."""
        return self.id.replace("-", "_")

    def random(self, seed: str) -> Random:
        """The source of chance for a seed: the same on every machine."""
        return Random(f"{self.id}/{seed}")

    @abstractmethod
    def task(self, seed: str) -> str:
        """The task as this seed poses it, in Markdown."""

    @abstractmethod
    def picture(self, seed: str) -> Picture | None:
        """The picture that goes with the task."""

    @abstractmethod
    def given(self, seed: str) -> Any:
        """What the task gives to work with; None where that is nothing."""

    @abstractmethod
    def judge(self, answer: Any, seed: str, patience: float = PATIENCE) -> Finding:
        """Check an answer; nothing that is wrong with it makes this raise."""
