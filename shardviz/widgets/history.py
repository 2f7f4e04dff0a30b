"""Undo and redo: the questions and choices of an explorer, in order."""

from __future__ import annotations

from traitlets import Bool, HasTraits

from shardviz.widgets.state import CHOICES, Choice, ExplorerState

__all__ = ["History"]

MOST = 100
"""How many steps can be undone."""


class History(HasTraits):
    """Remembers what a state was, and goes back and forth.

    Args:
        state: the state that is watched. Its step is not part of it: walking through a story is no change.

    Attributes:
        can_undo: whether there is something to undo.
        can_redo: whether something was undone, and nothing changed since.
    """

    can_undo = Bool(False)
    can_redo = Bool(False)

    def __init__(self, state: ExplorerState) -> None:
        super().__init__()
        self._state = state
        self._past: list[Choice] = []
        self._future: list[Choice] = []
        self._now = state.choice
        state.observe(self._remember, ["spec", *CHOICES])
        state.observe(self._tell, "errors")

    def undo(self) -> None:
        """Go back to what was before the last change; where a field cannot be read, to what was understood last."""
        if self._state.errors:
            self._go(self._now)
        elif self._past:
            self._future.append(self._now)
            self._go(self._past.pop())

    def redo(self) -> None:
        """Take an undo back."""
        if self._future:
            self._past.append(self._now)
            self._go(self._future.pop())

    def forget(self) -> None:
        """Begin anew with the present state."""
        self._past, self._future, self._now = [], [], self._state.choice
        self._tell()

    def _go(self, choice: Choice) -> None:
        self._now = choice  # so that the change is not remembered as a new one
        self._state.restore(choice)
        self._tell()

    def _remember(self, _change: object) -> None:
        now = self._state.choice
        if now == self._now:
            return
        self._past = [*self._past, self._now][-MOST:]
        self._future.clear()
        self._now = now
        self._tell()

    def _tell(self, _change: object = None) -> None:
        self.can_undo, self.can_redo = bool(self._past or self._state.errors), bool(self._future)
