"""The reconstruction as torch 2.8 and 2.9 do it, faithfully: including the sizes it believes in, and where that goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardviz.core.errors import SpecError
from shardviz.core.layout import Layout
from shardviz.core.order import split_factor
from shardviz.core.placements import Replicate
from shardviz.core.play import ITEMSIZE, START, along, apply, describe, first_step
from shardviz.core.recipe import Gather, Pad
from shardviz.core.runs import Runs, chunk_bounds, joined, length, piece, runs_text
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Source, Step, Trace, start

__all__ = ["torch_28"]


def torch_28(start_layout: Layout) -> Trace:
    """The story of the method as first merged, for `_S(d, tp), S(d)` on two mesh dimensions (others may replicate).

    It takes each row of the outer mesh dimension to hold ceil(n / dp) elements, the plain chunk rule, which is not what the
    rows hold when tensor parallelism has cut first. Where the members of one group would send different amounts the story
    ends: a real run hangs or errs there.

    Raises:
        SpecError: the method is not defined for these placements.

    Source: pytorch/pytorch#150490, as released in 2.8 and 2.9.
    """
    spec = start_layout.spec
    method = _Method.of(spec)
    buffers = start(start_layout)
    steps = [first_step(START, buffers)]
    for act in (method.gather_inner, method.gather_outer, method.unshuffle):
        done, end = act(buffers)
        steps += done
        buffers = steps[-1].buffers  # a part that changes nothing adds no step
        if end:
            return Trace(spec, Source("predicted", notice=start_layout.note), "torch-2.8", tuple(steps), end=end)
    return Trace(spec, Source("predicted", notice=start_layout.note), "torch-2.8", tuple(steps))


_Done = tuple[list[Step], str]


@dataclass(frozen=True)
class _Method:
    """The numbers the method works with: the cut dimension, the two mesh dimensions, and `row`, ceil(n / dp)."""

    spec: Spec
    dim: int
    outer: int
    inner: int
    row: int

    @classmethod
    def of(cls, spec: Spec) -> _Method:
        cut = [dim for dim in range(spec.ndim) if spec.cuts(dim)]
        cuts = spec.cuts(cut[0]) if len(cut) == 1 else ()
        others = [p for mesh_dim, p in enumerate(spec.placements) if mesh_dim not in cuts]
        if len(cuts) != 2 or not all(isinstance(p, Replicate) for p in others) or not _fsdp_over_tp(spec, *cuts):
            raise SpecError(
                f"the method of torch 2.8 is replayed for one tensor dimension cut by _S(dim, tp), S(dim) on two mesh "
                f"dimensions, such as [6] on dp=2, tp=2: _S(0, 2), S(0); not for {spec}"
            )
        return cls(spec, cut[0], *cuts, -(-spec.shape[cut[0]] // spec.mesh.sizes[cuts[0]]))

    def believed(self, place: int) -> int:
        """How many elements the method takes this rank's row to hold."""
        return self._belief(self.spec.mesh.coordinates[place][self.outer])

    def gather_inner(self, buffers: Sequence[Buffer]) -> _Done:
        """Step 1 and 2: pad to what an equal share of the believed row would be, gather over tp, keep the believed row."""
        tp = self.spec.mesh.sizes[self.inner]
        uneven = [bool(self.believed(place) % tp) for place in range(len(buffers))]
        targets = [-(-self.believed(place) // tp) if uneven[place] else 0 for place in range(len(buffers))]
        steps, end = self._pad_and_gather(buffers, targets, self.inner)
        if end:
            return steps, end
        keep = [self.believed(place) if uneven[place] else b.shape[self.dim] for place, b in enumerate(steps[-1].buffers)]
        name = self.spec.mesh.names[self.outer]
        beliefs = ", ".join(str(self._belief(index)) for index in range(self.spec.mesh.sizes[self.outer])[:8])
        sentence = f"By the plain chunk rule the {name} rows are believed to hold {beliefs} elements; as many are kept."
        return [*steps, *self._keep("keep the believed row", sentence, steps[-1].buffers, keep)], ""

    def gather_outer(self, buffers: Sequence[Buffer]) -> _Done:
        """Step 3: pad to ceil(n / dp), gather over dp, cut to n."""
        steps, end = self._pad_and_gather(buffers, [self.row] * len(buffers), self.outer)
        if end:
            return steps, end
        size = self.spec.shape[self.dim]
        sentence = f"All padding is believed to be at the end, so the first {size} are kept."
        return [*steps, *self._keep("unpad", sentence, steps[-1].buffers, [size] * len(buffers))], ""

    def unshuffle(self, buffers: Sequence[Buffer]) -> _Done:
        """Step 4: cut by dp, each piece by tp, leaving out empty pieces; take every tp-th piece from 0, from 1, and so on."""
        dp, tp = self.spec.mesh.sizes[self.outer], self.spec.mesh.sizes[self.inner]
        after = []
        for buffer in buffers:
            gathered = buffer.axes[self.dim]
            rows = _torch_chunks(gathered, dp)
            pieces = [part for row in rows for part in _torch_chunks(row, tp)]
            order = joined(run for first in range(tp) for part in pieces[first::tp] for run in part)
            after.append(along(buffer, self.dim, order))
        shown = runs_text(buffers[0].axes[self.dim], 8)
        sentence = (
            f"{shown} is cut into {dp} rows and each into {tp} pieces; taking one piece of every {tp}, from the first on, then "
            f"from the next on, gives {runs_text(after[0].axes[self.dim], 8)}."
        )
        return [Step("unshuffle", "local", sentence, tuple(after), (), (0,) * len(after), self.dim)], ""

    def _belief(self, index: int) -> int:
        return min(self.row, max(self.spec.shape[self.dim] - self.row * index, 0))

    def _pad_and_gather(self, buffers: Sequence[Buffer], targets: Sequence[int], mesh_dim: int) -> _Done:
        spec, steps = self.spec, list[Step]()
        sizes = tuple(max(b.shape[self.dim], target) for b, target in zip(buffers, targets, strict=True))
        if any(size > b.shape[self.dim] for b, size in zip(buffers, sizes, strict=True)):
            pad = Pad(self.dim, mesh_dim, sizes)
            padded = apply(pad, buffers, spec)
            steps.append(describe(pad, spec, buffers, padded, ITEMSIZE))
            buffers = padded
        for group in spec.mesh.groups(mesh_dim):
            sent = [sizes[spec.mesh.position(rank)] for rank in group]
            if len(set(sent)) > 1:
                amounts = ", ".join(f"rank {rank} {size}" for rank, size in zip(group, sent, strict=True))
                end = (
                    f"The story ends here: in one {spec.mesh.names[mesh_dim]} group the ranks would send different amounts "
                    f"({amounts}). A real run hangs, or ends with an error."
                )
                return steps, end
        gather = Gather(self.dim, mesh_dim)
        gathered = apply(gather, buffers, spec)
        return [*steps, describe(gather, spec, buffers, gathered, ITEMSIZE)], ""

    def _keep(self, name: str, sentence: str, buffers: Sequence[Buffer], counts: Sequence[int]) -> list[Step]:
        after = tuple(along(b, self.dim, piece(b.axes[self.dim], 0, count)) for b, count in zip(buffers, counts, strict=True))
        if after == tuple(buffers):
            return []
        return [Step(name, "local", sentence, after, (), (0,) * len(after), self.dim)]


def _fsdp_over_tp(spec: Spec, outer: int, inner: int) -> bool:
    return split_factor(spec, outer) == spec.mesh.sizes[inner] and split_factor(spec, inner) == 1


def _torch_chunks(runs: Runs, chunks: int) -> list[Runs]:
    """Cut as `torch.chunk` does: chunks that would be empty are left out."""
    total = length(runs)
    cut = [piece(runs, *chunk_bounds(total, chunks, index)) for index in range(chunks)]
    return [part for part in cut if part]
