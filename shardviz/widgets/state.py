"""What the explorer knows: plain traits, which a program may set and observe like the controls do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from traitlets import Bool, Dict, Enum, Float, HasTraits, Instance, Int, List, Unicode, observe

from shardviz.core.errors import SpecError
from shardviz.core.layout import READINGS
from shardviz.core.readings import differing_readings
from shardviz.core.spec import MADE_BY, Spec, parse
from shardviz.core.unshuffle import METHODS
from shardviz.widgets.fields import fields_of, new_row, read_fields

__all__ = ["CHOICES", "Choice", "ExplorerState", "readings_note"]

MOST_NOTE = 200

CHOICES = ("reading", "answer", "story", "method", "to", "follow", "made_by")
"""What a person chooses besides the question; the names are the same in the state and in `Choice`."""


@dataclass(frozen=True)
class Choice:
    """A question with everything that was chosen about it: what undo goes back to, and a line of Python restores."""

    spec: Spec
    reading: str = "auto"
    answer: str = "predicted"
    story: str = "shardviz"
    method: str = "exact"
    to: str = ""
    follow: str = ""
    made_by: str = "auto"

    @property
    def question(self) -> Spec:
        """The spec with who made the tensor, where that was chosen: one label can stand for two layouts."""
        return self.spec if self.made_by == "auto" else self.spec.with_made_by(self.made_by)


class ExplorerState(HasTraits):
    """The state of an explorer.

    Whichever way the question is put, the other one follows: `notation` on one side, `shape` and `rows` on the other. What
    cannot be read gets its message in `errors`, and `spec` stays what it was.

    Attributes:
        notation: the question as text.
        shape: the global shape as text.
        rows: one mapping of texts per mesh dimension: "name", "size" and "placement".
        spec: the question that was understood last.
        errors: a message per field that could not be read.
        reading: "auto", or one of the readings.
        answer: "predicted" or "real".
        story: whose reconstruction is told: "shardviz", or "torch" (its `full_tensor()`, of a real run).
        method: how a predicted reconstruction is done, one of `core.unshuffle.METHODS`.
        to: placements that the story leads to, as text; "" for the whole tensor on every rank.
        follow: the global index of the element that is lit everywhere, as text, or "".
        made_by: who made the tensor, one of `MADE_BY`; "auto" where it is told by the placements, or by torch.
        step: number of the story's step that is shown, from 0.
        busy: whether real ranks are at work.
        progress: what they are doing, or what became of it.
        fraction: the part done, 0 to 1.
        failure: what went wrong, or "".
    """

    notation = Unicode()
    shape = Unicode()
    rows = List(Dict())
    spec = Instance(Spec)
    errors = Dict()
    reading = Enum(("auto", *READINGS), "auto")
    answer = Enum(("predicted", "real"), "predicted")
    story = Enum(("shardviz", "torch"), "shardviz")
    method = Enum(METHODS, "exact")
    to = Unicode()
    follow = Unicode()
    made_by = Enum(("auto", *MADE_BY), "auto")
    step = Int(0)
    busy = Bool(False)
    progress = Unicode()
    fraction = Float(0.0)
    failure = Unicode()

    def __init__(self, spec: Spec, **traits: Any) -> None:
        self._writing = False
        super().__init__(**traits)
        self.accept(spec)

    @property
    def choice(self) -> Choice:
        """The question and what was chosen."""
        return Choice(self.spec, *(getattr(self, name) for name in CHOICES))

    def restore(self, choice: Choice) -> None:
        """Ask and choose all of it again; who observes is told when everything is set."""
        with self.hold_trait_notifications():
            self.accept(choice.spec)
            for name in CHOICES:
                setattr(self, name, getattr(choice, name))

    def link(self) -> str:
        """One line of Python that opens an explorer on the same view.

        Example:
            >>> state = ExplorerState(parse("[5] on dp=2, tp=2: _S(0, 2), S(0)"), follow="3", step=4)
            >>> print(state.link())
            sv.explore("[5] on dp=2, tp=2: _S(0, 2), S(0)", follow="3", step=4)
        """
        given = "".join(f", {name}={json.dumps(value)}" for name, value in self.chosen().items() if name != "step")
        return f'sv.explore("{self.spec}"{given}{f", step={self.step}" if self.step else ""})'

    def chosen(self) -> dict[str, str]:
        """What differs from what an explorer begins with, by the names of the arguments of `explore`."""
        plain = Choice(self.spec)
        found = {name: getattr(self, name) for name in CHOICES if getattr(self, name) != getattr(plain, name)}
        found.pop("story", None)  # of a real run, which nothing restores
        found.pop("answer", None)
        return found | ({"step": str(self.step)} if self.step else {})

    def accept(self, spec: Spec) -> None:
        """Ask another question: every field shows it."""
        with self._quietly():
            self.notation = str(spec)
            self.shape, self.rows = fields_of(spec)
            self._understand(spec)

    def add_dimension(self) -> None:
        """Add a mesh dimension."""
        self.rows = [*self.rows, new_row(self.rows)]

    def remove_dimension(self, number: int) -> None:
        """Remove a mesh dimension; the last one stays, for a mesh has one at least."""
        if len(self.rows) > 1:
            self.rows = [row for place, row in enumerate(self.rows) if place != number]

    @observe("notation")
    def _read_notation(self, _change: object) -> None:
        if self._writing:
            return
        try:
            spec = parse(self.notation)
        except SpecError as error:
            self.errors = {"notation": str(error)}
            return
        with self._quietly():
            self.shape, self.rows = fields_of(spec)
            self._understand(spec)

    @observe("shape", "rows")
    def _read_fields(self, _change: object) -> None:
        if self._writing:
            return
        found = read_fields(self.shape, self.rows, self.spec.mesh.ranks)
        if found.spec is None:
            self.errors = found.errors
            return
        with self._quietly():
            self.notation = str(found.spec)
            self._understand(found.spec)

    def _understand(self, spec: Spec) -> None:
        self.errors = {}
        self.spec = spec

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Set several traits at once; what the fields then say is not read back."""
        self._writing = True
        try:
            with self.hold_trait_notifications():
                yield
        finally:
            self._writing = False


def readings_note(spec: Spec) -> str:
    """One sentence where the readings of these placements give different layouts, "" where they agree.

    Example:
        >>> readings_note(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)"))
        'The readings differ on 2 ranks: rank 6 has nothing by sharding-order; 8 by left-to-right.'
        >>> readings_note(parse("[8] on dp=4, tp=2: _S(0, 2), S(0)"))
        ''
    """
    for comparison in differing_readings(spec):
        found = comparison.differences
        sentence = found[0].sentence
        sentence = sentence if len(sentence) <= MOST_NOTE else sentence[:MOST_NOTE] + " …"
        return f"The readings differ on {len(found)} rank{'s' * (len(found) != 1)}: {sentence}."
    return ""
