"""Folded parts of the explorer that show a picture and sentences: the answers side by side, and the audit."""

from __future__ import annotations

import anywidget
from traitlets import Bool, List, Unicode

from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.report import examine
from shardviz.picture.answers import draw_answers
from shardviz.widgets.answers import Answer
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.compared import answers_of, missing
from shardviz.widgets.framed import framed

__all__ = ["Audited", "Compared", "Panel"]


class Panel(anywidget.AnyWidget):
    """A part that is folded until somebody opens it.

    Attributes:
        title: what it is.
        unfolded: whether it is unfolded.
        lead: the first sentence.
        markup: a picture.
        entries: what is listed: a word for its kind, and a sentence.
        note: the last sentence.
    """

    _esm = script("panel.js")
    _css = STYLE

    title = Unicode().tag(sync=True)
    unfolded = Bool(False).tag(sync=True)
    lead = Unicode().tag(sync=True)
    markup = Unicode().tag(sync=True)
    entries = List().tag(sync=True)
    note = Unicode().tag(sync=True)


class Compared(Panel):
    """Predicted, reported, held and used beside each other."""

    def __init__(self) -> None:
        super().__init__(title="Compare the answers")
        self.add_class("sv-tells")

    def show(self, answer: Answer) -> None:
        """Compare what there is."""
        spec = answer.layout.spec
        told = answers_of(answer)
        parted = [one for one in told if one.differs]
        said = "; ".join(f"{one.name} {one.verdict}" for one in parted)
        with self.hold_sync():
            self.lead = f"{said[:1].upper()}{said[1:]}." if parted else f"{_listed([one.name for one in told])} agree."
            self.markup = framed(draw_answers(spec, told), "Answers side by side")
            self.entries = [
                [one.name, f"rank {rank} {sentence.removeprefix(f'rank {rank} ')}"]
                for one in parted
                for rank, sentence in one.differs[:8]
            ]
            self.note = missing(answer)


class Audited(Panel):
    """What the installed torch will get wrong about the tensor."""

    def __init__(self) -> None:
        super().__init__(title="Audit this tensor")

    def show(self, answer: Answer) -> None:
        """Audit the question."""
        report = examine([("", answer.layout.spec)], installed_release())
        found = report.parameters[0]
        count = len(found.errors)
        how = f"on torch {report.torch} (known by {report.known_by})"
        with self.hold_sync():
            self.lead = f"{count} error{'s' * (count != 1)} {how}." if count else f"No errors {how}."
            self.entries = [[one.severity, f"{one.kind}: {one.message}"] for one in found.findings]
            self.note = f"What would cure it: {'; '.join(found.cures)}." if found.cures else ""


def _listed(names: list[str]) -> str:
    first, *others = names
    text = ", ".join([first.capitalize(), *others[:-1]])
    return f"{text} and {others[-1]}" if others else text
