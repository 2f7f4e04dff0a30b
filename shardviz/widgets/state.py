"""What the explorer knows: plain traits, which a program may set and observe like the controls do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from traitlets import Bool, Dict, Enum, Float, HasTraits, Instance, Int, List, Unicode, observe

from shardviz.core.errors import SpecError
from shardviz.core.layout import READINGS
from shardviz.core.readings import differing_readings
from shardviz.core.spec import Spec, parse
from shardviz.widgets.fields import fields_of, new_row, read_fields

__all__ = ["ExplorerState", "readings_note"]

MOST_NOTE = 200


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
    step = Int(0)
    busy = Bool(False)
    progress = Unicode()
    fraction = Float(0.0)
    failure = Unicode()

    def __init__(self, spec: Spec, **traits: Any) -> None:
        self._writing = False
        super().__init__(**traits)
        self.accept(spec)

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
