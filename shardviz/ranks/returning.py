"""DTensors that ranks return: their mesh lives in the ranks alone, so what comes back is facts that draw themselves."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cloudpickle

from shardviz.core.live import Live, layout_seen

__all__ = ["HeldTensor", "beside", "packed"]


class HeldTensor(Live):
    """A DTensor that a rank returned, as facts; in a notebook it draws itself.

    Its elements stay on the ranks: a function that returns `dtensor.to_local()` or `dtensor.full_tensor()` brings them. Where
    all ranks of its mesh returned theirs at the same place of their results, each of them knows the local shapes of all.

    Attributes:
        layout: what arithmetic says, with what was seen.
        reports: what torch reports of every rank's shard.
        torch: the release.
    """

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        from shardviz.picture import draw_held

        return draw_held(self)._repr_mimebundle_()

    def __str__(self) -> str:
        return self.layout.text

    def __repr__(self) -> str:
        return f"<DTensor {self.spec}, {self.layout.seen_text}: print or draw it>"


class _Pickler(cloudpickle.Pickler):
    met = False
    """Whether a DTensor was met."""

    def reducer_override(self, value: Any) -> Any:
        tensor = sys.modules.get("torch.distributed.tensor")
        if tensor is not None and isinstance(value, tensor.DTensor):
            from shardviz.tensors.live import live

            self.met = True
            found = live(value)
            return HeldTensor, (found.layout, found.reports, found.torch)
        return super().reducer_override(value)


def packed(value: Any) -> tuple[bytes, bool]:
    """A result as bytes, in a rank: DTensors in it become `HeldTensor`s, wherever they are. And whether there are any."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.met


def beside(results: Sequence[Any]) -> list[Any]:
    """The results of all ranks, in which DTensors at the same place know each other's local shapes.

    Places are looked for in lists, tuples and dictionaries; other results stay as they are.
    """
    first: Any = results[0]
    kinds = {type(one) for one in results}
    if kinds == {HeldTensor}:
        seen = {one.rank: one for result in results for one in result.layout.seen}
        return [_with(result, [seen[rank] for rank in result.spec.mesh.ranks if rank in seen]) for result in results]
    if kinds == {dict} and len({tuple(one) for one in results}) == 1:
        columns = [beside([one[key] for one in results]) for key in first]
        return [dict(zip(first, row, strict=True)) for row in zip(*columns, strict=True)] if columns else list(results)
    if kinds in ({list}, {tuple}) and len({len(one) for one in results}) == 1 and first:
        columns = [beside(column) for column in zip(*results, strict=True)]
        return [type(first)(row) for row in zip(*columns, strict=True)]
    return list(results)


def _with(held: HeldTensor, seen: Sequence[Any]) -> HeldTensor:
    found = layout_seen(held.spec, seen)
    return replace(held, layout=found, reports=held.reports if found.spec == held.spec else ())
