"""The notation of specs, read by one small parser: `[15, 5] on dp=2, tp=2: _S(0, 2), S(0)`."""

from __future__ import annotations

import math
import re
from typing import NamedTuple, NoReturn

from shardviz.core.errors import NotationError, SpecError
from shardviz.core.placements import Partial, Placement, Replicate, Shard, StridedShard
from shardviz.core.repair import repaired, repaired_placements

__all__ = ["LARGEST", "OrderedPlacement", "encode_order", "read_mesh", "read_placements", "read_spec"]

LARGEST = 1 << 20
"""The most ranks a mesh may have: every rank is described one by one."""

MOST_CHARACTERS = 10_000
"""The longest text that is read."""

MOST_DIGITS = 100
SHOWN = 200
"""The most characters of a text that a message repeats."""

EXAMPLE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
_TOKEN = re.compile(r"\s*(?:(?P<number>-?\d+)|(?P<name>[^\W\d]\w*)|(?P<mark>[\[\](),:=-]))")
_BRACKETS = {"(": ")", "[": "]"}
_RUN_TOGETHER = re.compile(r"(R+)(S|Shard|_S|SS|_StridedShard|StridedShard|P|Partial|)")
"""Torch's order notation writes replicas side by side, and what follows them: RRS(0)."""


class OrderedPlacement(NamedTuple):
    """A placement, and the place of its cut in torch's order notation (`S(0)[1]` cuts second), if it was written."""

    placement: Placement
    order: int | None
    position: int


class _Sizes(NamedTuple):
    """A mesh as it is written; the names are empty where it is given as bare sizes."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    ranks: tuple[int, ...] | None


class _Parsed(NamedTuple):
    shape: tuple[int, ...]
    mesh: _Sizes
    placements: tuple[OrderedPlacement, ...]


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Misread(Exception):
    """What does not fit, and where."""

    def __init__(self, why: str, position: int) -> None:
        super().__init__(why)
        self.why, self.position = why, position


def read_spec(text: str) -> _Parsed:
    """Read a whole spec.

    Raises:
        NotationError: with the position of the text that does not fit.
    """
    try:
        return _Reader(text).spec()
    except _Misread as error:
        raise _error(error.why, text, error.position, _hint(text)) from None


def read_mesh(text: str) -> _Sizes:
    """Read a mesh alone: `dp=2, tp=2`, or `dp=2 (ranks 4-5)`.

    Raises:
        NotationError: with the position of the text that does not fit.
    """
    try:
        reader = _Reader(text)
        mesh = reader.mesh()
        if reader.peek().kind != "end":
            reader.fail(reader.peek(), "nothing comes after the mesh")
    except _Misread as error:
        raise _error(error.why, text, error.position, "dp=2, tp=2") from None
    return mesh


def read_placements(text: str) -> tuple[OrderedPlacement, ...]:
    """Read placements alone: `_S(0, 2), S(0)`, or run together as torch prints them: `RS(0)`.

    Raises:
        NotationError: with the position of the text that does not fit.
    """
    try:
        return _Reader(text).placements()
    except _Misread as error:
        raise _error(error.why, text, error.position, repaired_placements(text, _reads) or "_S(0, 2), S(0)") from None


def _reads(text: str) -> None:
    try:
        _Reader(text).placements()
    except _Misread as error:
        raise ValueError from error


def _hint(text: str) -> str:
    """The text put right where that can be done, else an example."""
    better = repaired(text, _reads)
    try:
        _Reader(better).spec()
    except _Misread:
        return EXAMPLE
    return better


def encode_order(placements: tuple[OrderedPlacement, ...], mesh_sizes: tuple[int, ...], text: str) -> tuple[Placement, ...]:
    """Turn torch's order notation into strided shards: a cut's split factor is the product of the sizes of the later mesh
    dimensions that cut before it.

    Raises:
        NotationError: the order numbers of a tensor dimension are not 0, 1, 2, …, each once.

    Example:
        >>> ordered = read_placements("S(0)[1]S(0)[0]")
        >>> [str(p) for p in encode_order(ordered, (4, 2), "S(0)[1]S(0)[0]")]  # mesh dimension 1, of size 2, cuts first
        ['_S(0, 2)', 'S(0)']
    """
    if all(item.order is None for item in placements) or len(placements) != len(mesh_sizes):
        return tuple(item.placement for item in placements)
    cuts: dict[int, list[int]] = {}
    for mesh_dim, item in enumerate(placements):
        if isinstance(item.placement, Shard):
            cuts.setdefault(item.placement.dim, []).append(mesh_dim)
        elif isinstance(item.placement, StridedShard):
            raise _error("a split factor and an order number say the same thing: use one of them", text, item.position)
    encoded: list[Placement] = [item.placement for item in placements]
    for dim, mesh_dims in cuts.items():
        if len(mesh_dims) == 1 and placements[mesh_dims[0]].order is None:
            continue
        orders = [placements[mesh_dim].order for mesh_dim in mesh_dims]
        if set(orders) != set(range(len(mesh_dims))):
            first = next(
                m
                for m in mesh_dims
                if orders.count(placements[m].order) > 1 or placements[m].order not in range(len(mesh_dims))
            )
            raise _error(
                f"the cuts of tensor dimension {dim} are numbered 0 to {len(mesh_dims) - 1}, each once",
                text,
                placements[first].position,
            )
        for mesh_dim, order in zip(mesh_dims, orders, strict=True):
            factor = math.prod(
                mesh_sizes[later]
                for later, other in zip(mesh_dims, orders, strict=True)
                if later > mesh_dim and other is not None and order is not None and other < order
            )
            encoded[mesh_dim] = Shard(dim) if factor == 1 else StridedShard(dim, factor)
    return tuple(encoded)


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise SpecError(f"notation is a text, such as {EXAMPLE!r}; got {type(text).__name__}")
        if len(text) > MOST_CHARACTERS:
            message = f"a text of {len(text):,} characters; at most {MOST_CHARACTERS:,} are read"
            raise NotationError(message, text[:MOST_CHARACTERS], 0)
        self.text = text
        self.tokens = self._split()
        self.at = 0

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while position < len(self.text.rstrip()):
            match = _TOKEN.match(self.text, position)
            if match is None:
                start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                raise _Misread(f"{self.text[start]!r} means nothing here", start)
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", len(self.text.rstrip()))]

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def next(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def fail(self, token: _Token, why: str) -> NoReturn:
        raise _Misread(why, token.position)

    def spec(self) -> _Parsed:
        self.mark("[", "a spec begins with the global shape in brackets")
        shape = self.numbers("]")
        self.mark("]", "the shape ends with a bracket")
        if (word := self.next()).text != "on":
            self.fail(word, "after the shape comes 'on' and the mesh")
        mesh = self.mesh()
        self.mark(":", "after the mesh come a colon and the placements")
        return _Parsed(shape, mesh, self.placements())

    def mesh(self) -> _Sizes:
        names: list[str] = []
        sizes: list[int] = []
        while True:
            if self.peek().kind == "name":
                name = self.next()
                if name.text in names:
                    self.fail(name, f"mesh dimension {name.text!r} stands twice")
                names.append(name.text)
                self.mark("=", f"mesh dimension {name.text!r} needs a size, such as {name.text}=2")
            if len(sizes) != len(names) - 1 and names:
                self.fail(self.peek(), "name every mesh dimension or none")
            sizes.append(self.number("a mesh dimension needs a size in ranks"))
            if self.peek().text != ",":
                break
            self.next()
        ranks = self.ranks() if self.peek().text == "(" else None
        return _Sizes(tuple(names), tuple(sizes), ranks)

    def mark(self, mark: str, why: str) -> None:
        token = self.next()
        if token.text != mark:
            self.fail(token, f"{why}: expected {mark!r}")

    def number(self, why: str) -> int:
        token = self.next()
        if token.kind != "number":
            self.fail(token, why)
        return self.value(token)

    def value(self, token: _Token) -> int:
        if len(token.text) > MOST_DIGITS:
            self.fail(token, f"a number has at most {MOST_DIGITS} digits")
        return int(token.text)

    def numbers(self, closing: str) -> tuple[int, ...]:
        values: list[int] = []
        while self.peek().text != closing:
            values.append(self.number("a size is a whole number"))
            if self.peek().text != ",":
                break
            self.next()
        return tuple(values)

    def ranks(self) -> tuple[int, ...]:
        self.mark("(", "the ranks stand in parentheses")
        if (word := self.next()).text != "ranks":
            self.fail(word, "the ranks of a mesh are written (ranks 4-7)")
        members: list[int] = []
        while True:
            first = self.number("a rank is a number")
            last = first
            # "4-7" is read as the number 4 followed by the number -7.
            if self.peek().kind == "number" and self.peek().text.startswith("-"):
                last = -self.value(self.next())
            if last < first:
                self.fail(self.tokens[self.at - 1], f"a range of ranks goes up, and {first}-{last} does not")
            if len(members) + last - first >= LARGEST:
                self.fail(self.tokens[self.at - 1], f"a mesh has at most {LARGEST:,} ranks, and these would be more")
            members.extend(range(first, last + 1))
            if self.peek().text != ",":
                break
            self.next()
        self.mark(")", "the ranks stand in parentheses")
        return tuple(members)

    def placements(self) -> tuple[OrderedPlacement, ...]:
        """All that is left, with or without the brackets in which Python prints tuples and lists."""
        opening = self.next().text if self.peek().text in _BRACKETS else ""
        found: list[OrderedPlacement] = []
        while True:
            found.extend(self.placement())
            comma = self.peek().text == ","
            if comma:
                self.next()
            if opening and (self.peek().kind == "end" or self.peek().text == _BRACKETS[opening]):
                self.mark(_BRACKETS[opening], "the placements end as they begin")
                if self.peek().kind != "end":
                    self.fail(self.peek(), "nothing comes after the placements")
                return tuple(found)
            if self.peek().kind == "end" and not comma:
                return tuple(found)

    def placement(self) -> list[OrderedPlacement]:
        word = self.next()
        expected = "a placement is R, S(dim), _S(dim, split_factor) or P(op)"
        if word.kind != "name":
            self.fail(word, expected)
        replicas = _RUN_TOGETHER.fullmatch(word.text)
        if replicas and word.text != "R":
            count, rest = len(replicas[1]), replicas[2]
            head = [OrderedPlacement(Replicate(), None, word.position + i) for i in range(count)]
            return head + (self.one(_Token("name", rest, word.position + count), expected) if rest else [])
        return self.one(word, expected)

    def one(self, word: _Token, expected: str) -> list[OrderedPlacement]:
        placement: Placement
        match word.text:
            case "R" | "Replicate":
                self.arguments(word, {})
                placement = Replicate()
            case "S" | "Shard":
                (dim,) = self.arguments(word, {"dim": None})
                placement = Shard(self.integer(dim, word))
            case "_S" | "SS" | "_StridedShard" | "StridedShard":
                dim, factor = self.arguments(word, {"dim": None, "split_factor": None, "sf": None})
                split_factor = self.integer(factor, word)
                if split_factor < 1:
                    self.fail(factor or word, "a split factor is the number of pieces to cut into, so 1 or more")
                placement = StridedShard(self.integer(dim, word), split_factor)
            case "P" | "Partial":
                (op,) = self.arguments(word, {"op": "sum", "reduce_op": "sum"})
                if op is not None and op.kind != "name":
                    self.fail(op, "a pending reduction is named: P(sum), P(avg), P(max), …")
                placement = Partial(op.text if op else "sum")
            case _:
                self.fail(word, f"there is no placement {word.text!r}: {expected}")
        order = None
        if self.peek().text == "[":
            self.next()
            order = self.number("the place of a cut is a number: S(0)[1] cuts second")
            self.mark("]", "the place of a cut stands in brackets")
        return [OrderedPlacement(placement, order, word.position)]

    def arguments(self, word: _Token, names: dict[str, str | None]) -> list[_Token | None]:
        """The tokens of a placement's arguments, by place or by name; names that end the same list are aliases."""
        places = _PLACES[word.text]
        values: list[_Token | None] = [None] * places
        if self.peek().text != "(":
            if any(default is None for default in names.values()):
                self.fail(self.peek(), f"{word.text} needs its arguments in parentheses")
            return values
        self.next()
        place = 0
        while self.peek().text != ")":
            token = self.next()
            if token.kind == "name" and self.peek().text == "=":
                if token.text not in names:
                    self.fail(token, f"{word.text} has no argument {token.text!r}")
                place = min(list(names).index(token.text), places - 1)
                self.next()
                token = self.next()
            if place >= places:
                self.fail(token, f"{word.text} takes {places} arguments")
            if token.kind not in ("number", "name"):
                self.fail(token, f"an argument of {word.text} was expected")
            if values[place] is not None:
                self.fail(token, f"{word.text} is given the same argument twice")
            values[place] = token
            place += 1
            if self.peek().text != ",":
                break
            self.next()
        self.mark(")", f"the arguments of {word.text} end with a parenthesis")
        return values

    def integer(self, token: _Token | None, word: _Token) -> int:
        if token is None:
            self.fail(self.tokens[self.at - 1], f"{word.text} lacks an argument: {_FORMS[word.text]}")
        if token.kind != "number":
            self.fail(token, f"a whole number was expected: {_FORMS[word.text]}")
        return self.value(token)


_FORMS = {
    **dict.fromkeys(("S", "Shard"), "S(dim)"),
    **dict.fromkeys(("_S", "SS", "_StridedShard", "StridedShard"), "_S(dim, split_factor)"),
}
_PLACES = {
    **dict.fromkeys(("R", "Replicate"), 0),
    **dict.fromkeys(("S", "Shard", "P", "Partial"), 1),
    **dict.fromkeys(("_S", "SS", "_StridedShard", "StridedShard"), 2),
}


def _error(why: str, text: str, position: int, right: str = EXAMPLE) -> NotationError:
    found = repr(text[position : position + 12]) if position < len(text) else "the end"
    shown = repr(text)
    if len(text) > SHOWN:  # what stands around the position says enough
        begin = max(0, min(position - SHOWN // 2, len(text) - SHOWN))
        shown = f"{len(text):,} characters, around it {text[begin : begin + SHOWN]!r}"
    why = why if len(why) <= 2 * SHOWN else f"{why[: 2 * SHOWN]} …"
    return NotationError(f"{why}; found {found} at position {position} of {shown} (right would be: {right})", text, position)
