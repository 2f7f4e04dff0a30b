"""What a checkpoint has of what a model needs: names and shapes, without reading an element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.optimizer import is_optimizer_state
from shardviz.checks.checkpoints.words import many, some

if TYPE_CHECKING:
    from shardviz.checks.checkpoints.checkpoint import Checkpoint

__all__ = ["Compared", "Needed", "compared"]

_MOST_NAMED = 20

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Needed:
    """What a model needs.

    Attributes:
        source: where that is said.
        shapes: the shape of every tensor, by its name in the model.
        tied: the names that stand for one and the same tensor, in groups: one of each is enough.
    """

    source: Path
    shapes: Mapping[str, Shape]
    tied: Sequence[Collection[str]] = ()

    def without_head(self) -> Needed | None:
        """The same by the names that the model without its head has: without the first part, where most names share one."""
        parts = Counter(name.partition(".")[0] for name in self.shapes)
        first, count = parts.most_common(1)[0] if parts else ("", 0)
        if 2 * count <= len(self.shapes):
            return None
        shapes = {name.removeprefix(f"{first}."): shape for name, shape in self.shapes.items()}
        return replace(self, shapes=shapes, tied=[[n.removeprefix(f"{first}.") for n in group] for group in self.tied])


@dataclass(frozen=True)
class Compared:
    """A checkpoint's tensors against those of a model.

    Attributes:
        source: what says what the model needs.
        prefix: what stands before the model's names in the checkpoint, as most of them tell.
        found: number of tensors that are there, with their shapes.
        missing: what is not there: name in the model, shape.
        extra: what is there under the prefix and no part of the model: name in the checkpoint, shape.
        other_shape: what has another shape: name in the model, shape needed, shape found.
        beside: number of tensors that do not belong to the model: an optimizer's, or not under the prefix.
    """

    source: Path
    prefix: str
    found: int
    missing: tuple[tuple[str, Shape], ...]
    extra: tuple[tuple[str, Shape], ...]
    other_shape: tuple[tuple[str, Shape, Shape], ...]
    beside: int

    @property
    def ok(self) -> bool:
        """Whether the checkpoint has just what the model needs."""
        return not (self.missing or self.extra or self.other_shape)

    def __bool__(self) -> bool:
        """Whether something was found: missing, extra or of another shape."""
        return not self.ok

    @property
    def text(self) -> str:
        """What is missing, extra or of another shape, and how much was compared."""
        lines = [f"missing: {shown(name)} {list(shape)}" for name, shape in self.missing[:_MOST_NAMED]]
        lines += some(len(self.missing), _MOST_NAMED, "missing")
        lines += [f"of another shape: {shown(name)} is {list(has)}, needed {list(n)}" for name, n, has in self.other_shape[:20]]
        lines += some(len(self.other_shape), _MOST_NAMED, "of another shape")
        lines += [f"extra: {shown(name)} {list(shape)}" for name, shape in self.extra[:_MOST_NAMED]]
        lines += some(len(self.extra), _MOST_NAMED, "extra")
        needed = self.found + len(self.missing) + len(self.other_shape)
        under = f" under {shown(self.prefix)!r}" if self.prefix else ""
        beside = f"; {many(self.beside, 'tensor')} beside the model" if self.beside else ""
        lines.append(
            f"{self.found:,} of {many(needed, 'tensor')} that {shown(str(self.source))} needs are there{under}{beside}"
        )
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """It as plain data."""
        return {
            "prefix": self.prefix,
            "found": self.found,
            "missing": [{"name": name, "shape": shape} for name, shape in self.missing],
            "extra": [{"name": name, "shape": shape} for name, shape in self.extra],
            "other_shape": [{"name": name, "shape": has, "needed": needed} for name, needed, has in self.other_shape],
            "beside": self.beside,
        }


def compared(found: Checkpoint, needed: Needed) -> Compared:
    """Compare a checkpoint's names and shapes with what a model needs."""
    shapes = {tensor.name: tensor.shape for tensor in found.tensors if not is_optimizer_state(tensor.name)}
    prefix = _prefix(shapes, needed.shapes)
    if prefix is None:
        needed = needed.without_head() or needed
        prefix = _prefix(shapes, needed.shapes) or ""
    under = {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}
    enough = {name for group in needed.tied if any(other in under for other in group) for name in group}
    missing = [(name, shape) for name, shape in needed.shapes.items() if name not in under and name not in enough]
    other = [(name, shape, under[name]) for name, shape in needed.shapes.items() if under.get(name, shape) != shape]
    extra = [(prefix + name, shape) for name, shape in under.items() if name not in needed.shapes]
    right = len(needed.shapes) - len(missing) - len(other)
    beside = len(found.tensors) - len(under)
    return Compared(needed.source, prefix, right, tuple(missing), tuple(extra), tuple(other), beside)


def _prefix(names: Collection[str], needed: Collection[str]) -> str | None:
    """What stands before the model's names, as most of them tell; the shortest, where several tell as much; None if none do."""
    known = set(needed)
    prefixes: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        for begin in range(len(parts)):
            if ".".join(parts[begin:]) in known:
                prefixes["".join(f"{part}." for part in parts[:begin])] += 1
    return min(prefixes, key=lambda prefix: (-prefixes[prefix], len(prefix))) if prefixes else None
