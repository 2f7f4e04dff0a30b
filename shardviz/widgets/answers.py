"""What there is to show of a question: who holds what, the story, and where it comes from. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shardviz.core.compare import disagreements
from shardviz.core.errors import ReadingError, SpecError
from shardviz.core.layout import Layout, layout
from shardviz.core.outcome import outcome
from shardviz.core.redistribute import redistribute
from shardviz.core.spec import Spec
from shardviz.core.trace import Trace
from shardviz.core.unshuffle import unshuffle
from shardviz.widgets.limits import drawable, quick
from shardviz.widgets.state import Choice

__all__ = ["Answer", "Recordings", "answer", "target_of"]

Recordings = Mapping[tuple[Spec, Spec | None, str], Trace]
"""What real ranks did, by the question, the target of a redistribution (None for the whole tensor) and who was to make it."""

MOST_VERDICT = 400


@dataclass(frozen=True)
class Answer:
    """Everything that is shown of one question.

    Attributes:
        layout: the prediction.
        trace: what real ranks did, where that is asked for and there.
        story: the story that is told.
        heading: what the story is.
        verdict: how it came out, in words; "" where there is nothing to say.
        wrong: whether the verdict tells of something wrong.
        differences: a sentence per disagreement.
    """

    layout: Layout
    trace: Trace | None
    story: Trace
    heading: str
    verdict: str
    wrong: bool
    differences: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Where it comes from."""
        if self.trace:
            return self.trace.source.text
        return f"predicted, {self.layout.note or f'read as {self.layout.reading}'}"


def target_of(choice: Choice) -> Spec | None:
    """Where a redistribution is to lead; None where the whole tensor is put together.

    Raises:
        SpecError: these placements do not fit the tensor and its mesh.
    """
    return Spec(choice.spec.shape, choice.spec.mesh, choice.to) if choice.to.strip() else None


def answer(choice: Choice, recordings: Recordings) -> Answer | dict[str, str]:
    """The answer to a question, or a message by the name of the choice that does not fit it."""
    try:
        drawable(choice.spec)
        predicted = quick(choice.question, choice.reading)
    except ReadingError as error:
        return {"reading": str(error)}
    except SpecError as error:
        return {"notation": str(error)}
    try:
        target = target_of(choice)
        if target is not None:
            drawable(target)
            quick(target, "auto")
        trace = recordings.get((choice.spec, target, choice.made_by)) if choice.answer == "real" else None
        if trace is not None:
            return _recorded(choice, trace, target)
        if target is not None:
            told = redistribute(choice.question, target.placements, choice.reading)
            heading = f"How the ranks come to {', '.join(map(str, target.placements))}"
            return Answer(predicted, None, told, heading, "", False)
    except SpecError as error:
        return {"to": str(error)}
    try:
        told = unshuffle(choice.question, choice.method, choice.reading)
    except SpecError as error:
        return {"method": str(error)}
    verdict = outcome(told) if choice.method != "exact" else ""
    heading = "How the ranks put it together" if told.right else f"What the ranks make of it by {choice.method}"
    return Answer(predicted, None, told, heading, verdict, not told.right)


def _recorded(choice: Choice, trace: Trace, target: Spec | None) -> Answer:
    predicted = layout(trace.spec, choice.reading)
    if target is not None:
        heading = f"How torch comes to {', '.join(map(str, target.placements))}"
        return Answer(predicted, trace, trace, heading, _short(outcome(trace)), not trace.right)
    found = disagreements(trace, predicted)
    torch = trace.torch if choice.story == "torch" else None
    heading = "What torch's full_tensor() did" if torch else "How the ranks put it together"
    verdict = f"{len(found)} disagreement{'s' * (len(found) != 1)}"
    if not found:
        used = ", used" * bool(trace.used)
        verdict = f"All answers agree: predicted, held, reported{used}, and both reconstructions."
    sentences = tuple(difference.sentence for difference in found)
    return Answer(predicted, trace, torch or trace, heading, verdict, bool(found), sentences)


def _short(text: str) -> str:
    return text if len(text) <= MOST_VERDICT else text[:MOST_VERDICT] + " …"
