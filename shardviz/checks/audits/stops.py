"""What else stops a job of transformers on a mesh: heads that are cut apart, an empty part of the embedding, its own loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from shardviz.checks.audits.kinds import Finding
from shardviz.checks.audits.lines import Line, fsdp_cut, merged, question, tables
from shardviz.core.placements import StridedShard
from shardviz.core.runs import chunk_bounds, length
from shardviz.core.spec import Spec

__all__ = ["Known", "stops"]

HEADS = {
    "q_proj": "num_attention_heads",
    "k_proj": "num_key_value_heads",
    "v_proj": "num_key_value_heads",
    "q_b_proj": "num_attention_heads",
    "kv_b_proj": "num_attention_heads",
}
"""Layers whose columns are heads, and what counts them in a configuration of transformers."""

SHOWN = 4
"""The most parameters of rows per rank that a sentence lists."""


@dataclass(frozen=True)
class Known:
    """What transformers says of a model beside its parameters.

    Attributes:
        styles: of parallelism, by parameter ("colwise", "embedding_rowwise", …), as its plan has them.
        heads: how many there are, by the last part of a layer's name ("q_proj").
        pretrained: whether the weights come through `from_pretrained`, whose loader reads placements from left to right.
    """

    styles: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, int] = field(default_factory=dict)
    pretrained: bool = True

    @classmethod
    def of(cls, config: Any, styles: Mapping[str, str]) -> Known:
        """From a configuration of transformers, or the plain data of its `config.json`."""
        given = config if isinstance(config, Mapping) else vars(config)
        queries = given.get("num_attention_heads")
        counts = {"num_attention_heads": queries, "num_key_value_heads": given.get("num_key_value_heads") or queries}
        return cls(styles, {layer: count for layer, what in HEADS.items() if (count := counts[what])})


def stops(named: Iterable[tuple[str, Spec]], known: Known) -> Iterator[tuple[str, Finding]]:
    """The findings that need more than a spec, by parameter."""
    for name, spec in named:
        if not spec.numel:
            continue
        yield from ((name, found) for found in _heads(name, spec, known))
        yield from ((name, found) for found in _embedding(name, spec, known))
        yield from ((name, found) for found in _experts(name, spec))
        if known.pretrained:
            yield from ((name, found) for found in _pretrained(name, spec))


def _model_cuts(spec: Spec, dim: int) -> list[int]:
    """The mesh dimensions that the model's plan cuts a tensor dimension over: all but FSDP2's."""
    return [m for m in spec.cuts(dim) if m != fsdp_cut(spec) and spec.mesh.sizes[m] > 1]


def _shares(spec: Spec) -> dict[int, int]:
    """How many indices of dimension 0 each rank computes with: its part by the model's only cut, whole over FSDP2."""
    (cut,) = _model_cuts(spec, 0)
    bounds = [chunk_bounds(spec.shape[0], spec.mesh.sizes[cut], place) for place in range(spec.mesh.sizes[cut])]
    sizes = [stop - start for start, stop in bounds]
    return {rank: sizes[coordinate[cut]] for coordinate, rank in zip(spec.mesh.coordinates, spec.mesh.ranks, strict=True)}


def _heads(name: str, spec: Spec, known: Known) -> Iterator[Finding]:
    """A column-wise projection hands each rank its columns, which are seen as heads: they must be whole ones."""
    layer = name.split(".")[-2] if "." in name else ""
    count = known.heads.get(layer)
    if not count or known.styles.get(name) != "colwise" or spec.shape[0] % count or len(_model_cuts(spec, 0)) != 1:
        return
    width = spec.shape[0] // count
    shares = _shares(spec)
    raising = tuple(sorted(rank for rank, share in shares.items() if share % width or not share))
    if not raising:
        return
    cut = _model_cuts(spec, 0)[0]
    tp, over = spec.mesh.sizes[cut], spec.mesh.names[cut]
    common = gcd(*known.heads.values())
    fitting = [size for size in range(1, common + 1) if common % size == 0]
    waits = "" if len(raising) == len(shares) else "; the other ranks wait"
    kind = "key-value heads" if count != known.heads["q_proj"] else "heads"
    text = (
        f"the forward pass is refused: {over}={tp} does not divide the {count} {kind}, so rank {raising[0]} has "
        f"{shares[raising[0]]} columns where a head has {width}, and cannot view them as heads{waits}; "
        f"{over} of {', '.join(map(str, fitting))} fits this model's heads"
    )
    yield Finding("forward-refused", "error", spec.numel, ((0, spec.shape[0]),), raising, text)


def _embedding(name: str, spec: Spec, known: Known) -> Iterator[Finding]:
    """An embedding that is cut by rows, and a rank of the cut that has none."""
    if known.styles.get(name) != "embedding_rowwise" or len(_model_cuts(spec, 0)) != 1:
        return
    empty = tuple(sorted(rank for rank, share in _shares(spec).items() if not share))
    if empty:
        cut = _model_cuts(spec, 0)[0]
        text = (
            f"the forward pass is refused: {spec.shape[0]} rows over {spec.mesh.names[cut]}={spec.mesh.sizes[cut]} leave rank "
            f"{empty[0]} none; its embedding raises (index_select), and the other ranks wait"
        )
        yield Finding("forward-refused", "error", 0, (), empty, text)


def _experts(name: str, spec: Spec) -> Iterator[Finding]:
    """How experts are spread: rows per rank, where they differ."""
    if ".experts." not in name or spec.ndim < 2 or not spec.cuts(0):
        return
    held = _line(spec, 0)
    sizes = [length(runs) for runs in held.held.values()]
    if len(set(sizes)) < 2:
        return
    empty = sizes.count(0)
    spread = ", ".join(f"{sizes.count(size)} with {size}" for size in sorted(set(sizes), reverse=True)[:SHOWN])
    also = "; those with none hold up what needs a value of every rank (max, argmax, the infinity norm)" if empty else ""
    text = f"{spec.shape[0]} experts over {len(sizes)} places: {spread}{also}"
    yield Finding("imbalance", "note", 0, (), (), text)


def _line(spec: Spec, dim: int) -> Line:
    asked = question(spec, dim, fsdp_cut(spec))
    held, label = tables(asked)
    return Line(asked, held, label, {})


def _pretrained(name: str, spec: Spec) -> Iterator[Finding]:
    """transformers' loader reads the placements from left to right, and wants a part of every strided cut."""
    strided = any(isinstance(placement, StridedShard) for placement in spec.placements)
    by_expert = ".experts." in name and spec.ndim > 2
    for dim in range(spec.ndim):
        if not spec.cuts(dim):
            continue
        found = _line(spec, dim)
        nothing = [place for place, runs in found.label.items() if not runs]
        other = [place for place, runs in found.label.items() if length(runs) != length(found.held[place])]
        ranks = _ranks(spec, dim, {*nothing, *other} if strided else set(other))
        if strided and nothing:
            what = "it raises a bare IndexError"
            if by_expert and dim == 0:
                what = "it holds no expert, and its conversion of single experts fails"
            text = f"transformers' from_pretrained is refused: rank {ranks[0]} gets nothing of a strided cut, and {what}"
            yield Finding("pretrained-refused", "error", 0, (), ranks, text)
            return
        if by_expert and dim == 0 and nothing:
            ranks = _ranks(spec, dim, set(nothing))
            text = f"transformers' from_pretrained is refused: rank {ranks[0]} holds no expert, and the conversion fails there"
            yield Finding("pretrained-refused", "error", 0, (), ranks, text)
            return
        if other:
            place = other[0]
            text = (
                "transformers' from_pretrained is refused: its loader reads the placements from left to right, and brings "
                f"rank {min(_ranks(spec, dim, {place}))} {length(found.label[place])} {_word(dim)} where it holds "
                f"{length(found.held[place])}"
            )
            rows = merged((*found.rows(other), *(run for one in other for run in found.label[one])))
            yield Finding("pretrained-refused", "error", 0, rows, ranks, text)
            return


def _ranks(spec: Spec, dim: int, places: set[tuple[int, ...]]) -> tuple[int, ...]:
    fsdp = fsdp_cut(spec)
    cuts = [m for m in spec.cuts(dim) if spec.mesh.sizes[m] > 1 or m == fsdp]
    each = zip(spec.mesh.coordinates, spec.mesh.ranks, strict=True)
    return tuple(sorted(rank for coordinate, rank in each if tuple(coordinate[m] for m in cuts) in places))


def _word(dim: int) -> str:
    return ("rows", "columns")[dim] if dim < 2 else f"indices of dimension {dim}"
