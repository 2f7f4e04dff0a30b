"""What was drawn, as data: a scene with its title, its words, its table, and the frames of a story."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardviz.picture.scene import Scene

SPOKEN = 6000
"""The most characters of an alternative text."""


@dataclass(frozen=True)
class Frame:
    """One step of a story, for a player: its scene, its name and its sentence."""

    scene: Scene
    name: str
    sentence: str


@dataclass(frozen=True)
class Table:
    """Facts in rows, for readers who prefer them to a picture."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, repr=False)
class Drawn:
    """A drawing of facts, together with its text form.

    Attributes:
        scene: what is drawn.
        title: one line.
        text: the same facts in words: the alternative text.
        table: the same facts rank by rank.
        frames: of a story, one frame per step.
        shape: the tensor's shape; with it a page names the element under the pointer.
        dims: the tensor dimensions that the spans of its cells are about, in their order.
    """

    scene: Scene
    title: str
    text: str
    table: Table = field(repr=False)
    frames: tuple[Frame, ...] = field(default=(), repr=False)
    shape: tuple[int, ...] = ()
    dims: tuple[int, ...] = ()

    @property
    def has_elements(self) -> bool:
        """Whether a cell stands for elements of a tensor, which can be followed; those of a recorded program do not."""
        return any(cell.span for cell in self.scene.cells)

    @property
    def alt(self) -> str:
        """The alternative text: the text form, cut where it is longer than anybody would listen to."""
        return self.text if len(self.text) <= SPOKEN else self.text[:SPOKEN].rsplit("\n", 1)[0] + "\n…"
