"""What else stops a job of transformers on a mesh: heads that are cut apart, an empty part of the embedding, its own loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from shardviz.checks.audits.empty_table import refusing
from shardviz.checks.audits.kinds import Finding
from shardviz.checks.audits.lines import Line, fsdp_cut, merged, question, tables
from shardviz.core.placements import StridedShard
from shardviz.core.runs import chunk_bounds, length
from shardviz.core.spec import Spec

__all__ = ["Known", "scalars", "stops"]

HEADS = {
    "q_proj": "num_attention_heads",
    "k_proj": "num_key_value_heads",
    "v_proj": "num_key_value_heads",
    "q_b_proj": "num_attention_heads",
    "kv_b_proj": "num_attention_heads",
}
"""Layers whose columns are heads, and what counts them in a configuration of transformers."""

SHOWN = 4
"""The most numbers of rows per rank that a sentence lists."""

GROUPED = 16
"""Bytes of which a row of a grouped matrix product must be a multiple (torch's grouped_mm)."""


@dataclass(frozen=True)
class Known:
    """What transformers says of a model beside its parameters.

    Attributes:
        styles: of parallelism, by parameter ("colwise", "embedding_rowwise", …), as its plan has them.
        heads: how many there are, by the last part of a layer's name ("q_proj").
        apart: the expert weights whose checkpoints hold every expert by itself.
        itemsize: bytes of an element of the weights; 0 where it is not known.
    """

    styles: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, int] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    itemsize: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any], styles: Mapping[str, str], apart: Iterable[str] = (), itemsize: int = 0) -> Known:
        """From what a configuration of transformers says (`num_attention_heads`, `num_key_value_heads`)."""
        queries = config.get("num_attention_heads")
        counts = {"num_attention_heads": queries, "num_key_value_heads": config.get("num_key_value_heads") or queries}
        heads = {layer: count for layer, what in HEADS.items() if (count := counts[what])}
        return cls(styles, heads, frozenset(apart), itemsize)


def stops(named: Iterable[tuple[str, Spec]], known: Known) -> Iterator[tuple[str, Finding]]:
    """The findings that need more than a spec, by parameter."""
    for name, spec in named:
        if not spec.numel:
            continue
        yield from ((name, found) for found in _heads(name, spec, known))
        yield from ((name, found) for found in _embedding(name, spec, known))
        yield from ((name, found) for found in _grouped(name, spec, known))
        yield from ((name, found) for found in _experts(name, spec))
        yield from ((name, found) for found in _pretrained(name, spec, known))


def scalars(shapes: Mapping[str, Sequence[int]], ranks: Sequence[int]) -> Iterator[tuple[str, Finding]]:
    """Parameters without dimensions: `fully_shard` refuses them, and with them the module they are in."""
    for name, shape in shapes.items():
        if not len(shape):
            text = (
                "FSDP2 refuses a parameter without dimensions; make its shape (1,), or name it in fully_shard(ignored_params=…)"
            )
            yield name, Finding("sharding-refused", "error", 1, (), tuple(sorted(ranks)), text)


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
        f"what fits is {over} = {', '.join(map(str, fitting))}"
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


def _grouped(name: str, spec: Spec, known: Known) -> Iterator[Finding]:
    """The experts' grouped matrix products take rows of whole 16 bytes, and tensor parallelism cuts their width."""
    if not known.itemsize or spec.ndim != 3 or known.styles.get(name) != "rowwise" or len(_model_cuts(spec, 2)) != 1:
        return
    (cut,) = _model_cuts(spec, 2)
    tp, width = spec.mesh.sizes[cut], spec.shape[2]
    shares = [stop - start for start, stop in (chunk_bounds(width, tp, place) for place in range(tp))]
    bad = {place for place, share in enumerate(shares) if share * known.itemsize % GROUPED}
    if bad:
        each = zip(spec.mesh.coordinates, spec.mesh.ranks, strict=True)
        ranks = tuple(sorted(rank for coordinate, rank in each if coordinate[cut] in bad))
        share, unit = shares[min(bad)], GROUPED // known.itemsize
        text = (
            f"the forward pass is refused (strides should be multiple of {GROUPED} bytes): {spec.mesh.names[cut]}={tp} leaves "
            f"each expert {share} of its {width} columns on rank {ranks[0]}, and grouped products want multiples of {unit}"
        )
        yield Finding("forward-refused", "error", spec.numel, ((0, width),), ranks, text)


def _experts(name: str, spec: Spec) -> Iterator[Finding]:
    """How experts are spread: rows per rank, where they differ."""
    if ".experts." not in name or spec.ndim < 2 or not question(spec, 0, fsdp_cut(spec)).cuts:
        return
    held = _line(spec, 0)
    sizes = [length(runs) for runs in held.held.values()]
    if len(set(sizes)) < 2:
        return
    empty = sizes.count(0)
    spread = ", ".join(f"{sizes.count(size)} with {size}" for size in sorted(set(sizes), reverse=True)[:SHOWN])
    also = f"; on those with none {refusing(('argmax()', 'infinity norm'))} raise, and the other ranks wait" if empty else ""
    text = f"{spec.shape[0]} experts over {len(sizes)} places: {spread}{also}"
    yield Finding("imbalance", "note", 0, (), (), text)


def _line(spec: Spec, dim: int) -> Line:
    asked = question(spec, dim, fsdp_cut(spec))
    held, label = tables(asked)
    return Line(asked, held, label, {})


def _pretrained(name: str, spec: Spec, known: Known) -> Iterator[Finding]:
    """transformers' loader reads the placements from left to right, and wants a part of every strided cut."""
    strided = any(isinstance(placement, StridedShard) for placement in spec.placements)
    for dim in range(spec.ndim):
        asked = question(spec, dim, fsdp_cut(spec))
        if not asked.cuts or asked.even:
            continue
        found = _line(spec, dim)
        nothing = {place for place, runs in found.label.items() if not runs}
        other = {place for place, runs in found.label.items() if length(runs) != length(found.held[place])}
        refused = ""
        if dim == 0 and name in known.apart:
            places = nothing
            refused = "{first} holds no expert, and putting its experts together fails there"
        elif strided and nothing:
            places = nothing | other
            refused = "{first} gets nothing of a cut beside a strided one, and its loader raises a bare IndexError"
        else:
            places = other
            if other:
                first = min(other, key=lambda place: min(_ranks(spec, dim, {place})))
                refused = (
                    f"its loader reads the placements from left to right, and brings {{first}} {length(found.label[first])} "
                    f"{_word(dim)} where it holds {length(found.held[first])} (it may wait before it says so: the loader first "
                    "initialises that weight anew, together with the others, and they are through)"
                )
        if places:
            ranks = _ranks(spec, dim, places)
            text = "transformers' from_pretrained is refused: " + refused.format(first=f"rank {ranks[0]}")
            rows = merged(run for place in other for run in (*found.held[place], *found.label[place]))
            yield Finding("pretrained-refused", "error", 0, rows, ranks, text)
            return


def _ranks(spec: Spec, dim: int, places: set[tuple[int, ...]]) -> tuple[int, ...]:
    fsdp = fsdp_cut(spec)
    cuts = [m for m in spec.cuts(dim) if spec.mesh.sizes[m] > 1 or m == fsdp]
    each = zip(spec.mesh.coordinates, spec.mesh.ranks, strict=True)
    return tuple(sorted(rank for coordinate, rank in each if tuple(coordinate[m] for m in cuts) in places))


def _word(dim: int) -> str:
    return ("rows", "columns")[dim] if dim < 2 else f"indices of dimension {dim}"
