"""A spec as fields that people edit: the shape, and a name, size and placement per mesh dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardviz.core.errors import SpecError
from shardviz.core.mesh import Mesh
from shardviz.core.notation import read_placements
from shardviz.core.placements import Placement
from shardviz.core.spec import Spec

__all__ = ["Fields", "Row", "fields_of", "new_row", "read_fields", "suggestions"]

Row = Mapping[str, str]
"""One mesh dimension as texts: `name`, `size` and `placement`."""

COMMON_NAMES = ("dp", "tp", "pp", "ep", "cp")


@dataclass(frozen=True)
class Fields:
    """What was read from the fields: a spec, or a message per field that is wrong.

    The keys of `errors` are "shape", "mesh" (the fields taken together), and "name:0", "size:0", "placement:0" for row 0.
    """

    spec: Spec | None
    errors: dict[str, str]


def fields_of(spec: Spec) -> tuple[str, list[Row]]:
    """The texts that the fields show for a spec.

    Example:
        >>> from shardviz.core.spec import parse
        >>> fields_of(parse("[15, 5] on dp=2: S(0)"))
        ('15, 5', [{'name': 'dp', 'size': '2', 'placement': 'S(0)'}])
    """
    rows: list[Row] = [
        {"name": name, "size": str(size), "placement": str(placement)}
        for name, size, placement in zip(spec.mesh.names, spec.mesh.sizes, spec.placements, strict=True)
    ]
    return ", ".join(map(str, spec.shape)), rows


def read_fields(shape: str, rows: Sequence[Row], ranks: tuple[int, ...] = ()) -> Fields:
    """Read the fields, each by itself first, so that a message can stand beside what is wrong.

    Args:
        shape: sizes separated by commas, with or without brackets; empty for a scalar.
        rows: one per mesh dimension.
        ranks: the ranks of the mesh that was there before; kept while their number fits.
    """
    errors: dict[str, str] = {}
    sizes = _shape(shape, errors)
    counts = [_row(row, number, rows, sizes, errors) for number, row in enumerate(rows)]
    if errors or sizes is None:
        return Fields(None, errors)
    try:
        names = {row["name"].strip(): count for row, count in zip(rows, counts, strict=True)}
        mesh = Mesh(names, ranks if len(ranks) == math.prod(counts) else None)
        return Fields(Spec(sizes, mesh, ", ".join(row["placement"] for row in rows)), {})
    except SpecError as error:
        return Fields(None, {"mesh": str(error)})


def new_row(rows: Sequence[Row]) -> Row:
    """A mesh dimension to add: a name that is free, two ranks, a replica."""
    taken = {row["name"].strip() for row in rows}
    names = (*COMMON_NAMES, *(f"dim{number}" for number in range(len(rows) + 1)))
    return {"name": next(name for name in names if name not in taken), "size": "2", "placement": "R"}


def suggestions(spec: Spec) -> list[str]:
    """Placements that a person may want to choose from for this tensor."""
    strided = sorted({size for size in spec.mesh.sizes if size > 1})
    return [
        "R",
        *(f"S({dim})" for dim in range(spec.ndim)),
        *(f"_S({dim}, {factor})" for dim in range(spec.ndim) for factor in strided),
        "P(sum)",
    ]


def _shape(text: str, errors: dict[str, str]) -> tuple[int, ...] | None:
    inner = text.strip().removeprefix("[").removesuffix("]").strip().removesuffix(",")
    try:
        sizes = tuple(int(part) for part in inner.split(",")) if inner else ()
        return Spec(sizes, (1,), "R").shape
    except SpecError as error:
        errors["shape"] = str(error)
    except ValueError:
        errors["shape"] = f"{text!r}: a shape is whole numbers separated by commas, such as 15, 5"
    return None


def _row(row: Row, number: int, rows: Sequence[Row], shape: tuple[int, ...] | None, errors: dict[str, str]) -> int:
    name = row["name"].strip()
    try:
        Mesh({name: 1})
    except SpecError as error:
        errors[f"name:{number}"] = str(error)
    if name in (other["name"].strip() for other in rows[:number]):
        errors[f"name:{number}"] = f"mesh dimension {name!r} stands twice"
    count = _size(row["size"], number, name, errors)
    try:
        placement = _placement(row["placement"])
        if shape is not None:
            Spec(shape, {name if name.isidentifier() else "dim": count or 1}, [placement])
    except SpecError as error:
        errors[f"placement:{number}"] = str(error)
    return count


def _size(text: str, number: int, name: str, errors: dict[str, str]) -> int:
    try:
        return Mesh((int(text),)).size
    except SpecError as error:
        errors[f"size:{number}"] = str(error)
    except ValueError:
        errors[f"size:{number}"] = f"mesh dimension {name!r} has size {text!r}: a size is a whole number of ranks, 1 or more"
    return 0


def _placement(text: str) -> Placement:
    found = read_placements(text)
    if len(found) != 1:
        raise SpecError(f"{text!r} is {len(found)} placements; each mesh dimension has one")
    return found[0].placement
