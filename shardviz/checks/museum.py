"""The museum: cases in which some torch release goes wrong, run on the installed one, beside what was seen on others."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from shardviz.checks.museum_ranks import show
from shardviz.core.errors import RankFailure, SpecError
from shardviz.core.spec import parse

if TYPE_CHECKING:
    from shardviz.picture import Picture

__all__ = ["Card", "Museum", "Shown", "cards", "museum"]

Result: TypeAlias = Literal["right", "wrong", "refused", "hangs"]

PATIENCE = 20.0
"""Seconds until an exhibit whose ranks have not come back is taken to hang."""


@dataclass(frozen=True)
class Outcome:
    """What a release does: `outcome` in one word, and `told` in more."""

    outcome: Result
    told: str


@dataclass(frozen=True)
class Card:
    """One case.

    Attributes:
        id: its name.
        reports: issues that are about it.
        kind: what is done with the tensor.
        spec: the tensor, in the notation.
        how: how it is made, or what is called.
        right: what should come out.
        outcomes: what came out, by release.
        why_not: why it is only told and not run; "" where it is run.
        needs: packages that it needs beside torch, with the versions it was recorded with.
    """

    id: str
    reports: tuple[str, ...]
    kind: str
    spec: str
    how: str
    right: str
    outcomes: Mapping[str, Outcome]
    why_not: str
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def lacking(self) -> str:
        """Why it cannot be run here, or ""."""
        missing = [name for name in self.needs if not _installed(name)]
        return f"not run here: it needs {' and '.join(missing)} (pip install {' '.join(missing)})" if missing else ""

    def draw(self) -> Picture:
        """The tensor, with what the installed torch reports of it."""
        from shardviz.checks.audits.picture import draw_reported

        return draw_reported(parse(self.spec))

    @property
    def script(self) -> str:
        """A program of plain torch that reproduces it.

        Raises:
            SpecError: the card is only told.
        """
        from shardviz.checks.museum_exhibits import EXHIBITS, HELPERS

        if self.why_not:
            raise SpecError(f"{self.id} cannot be run: it is {self.why_not}")
        count, exhibit, arguments = EXHIBITS[self.id]
        own = [] if exhibit in HELPERS else [exhibit]
        parts = [inspect.getsource(part) for part in (*HELPERS, *own)]
        call = f"{exhibit.__name__}({', '.join(map(repr, arguments))})"
        return SCRIPT.format(card=self, count=count, body="\n\n".join(parts).rstrip(), call=call)

    def report(self, shown: Shown | None = None) -> str:
        """The text of a report to those who can mend it."""
        seen = [f"- {release}: {outcome.outcome}: {outcome.told}" for release, outcome in self.outcomes.items()]
        if shown is not None:
            seen.append(f"- {shown.torch}, just now: {shown.outcome}: {shown.told}")
        known = f"\nSee also {', '.join(self.reports)}.\n" if self.reports else ""
        return REPORT.format(card=self, seen="\n".join(seen), known=known, script=self.script)


@dataclass(frozen=True)
class Shown:
    """What came of a card on the installed torch; `outcome` is None where it is only told."""

    card: Card
    torch: str
    outcome: Result | None
    told: str

    @property
    def recorded(self) -> Outcome | None:
        """What was seen on this release before, if anything."""
        return self.card.outcomes.get(self.torch)

    @property
    def differs(self) -> bool:
        """Whether it came out otherwise than it was recorded for this release."""
        other = any(_installed(name) != recorded for name, recorded in self.card.needs.items())
        return self.outcome is not None and self.recorded is not None and not other and self.outcome != self.recorded.outcome


@dataclass(frozen=True)
class Museum:
    """Every card with what came of it. As every report, it is true where something was found: a card that came out otherwise
    than recorded."""

    shown: tuple[Shown, ...]

    def __getitem__(self, name: str) -> Shown:
        for one in self.shown:
            if one.card.id == name:
                return one
        raise SpecError(f"the museum shows no {name!r} now; it has {', '.join(one.card.id for one in self.shown)}")

    def __iter__(self) -> Iterator[Shown]:
        return iter(self.shown)

    def __bool__(self) -> bool:
        return any(one.differs for one in self.shown)

    @property
    def ok(self) -> bool:
        """Whether nothing was found: every card came out as recorded."""
        return not self

    @property
    def text(self) -> str:
        """The cards in words."""
        lines = []
        for one in self.shown:
            lines.append(f"{one.card.id}: {one.card.spec}: {one.card.how}")
            told = one.told if one.card.lacking else f"only told, {one.told}"
            now = told if one.outcome is None else f"{one.outcome}: {one.told}"
            lines.append(f"  torch {one.torch} here: {now}{' (NOT AS RECORDED)' if one.differs else ''}")
            lines += [f"  {release}: {seen.outcome}: {seen.told}" for release, seen in one.card.outcomes.items()]
            lines.append(f"  right would be: {one.card.right}")
        return "\n".join(lines)

    def json(self) -> list[dict[str, Any]]:
        """The cards as plain data."""
        return [
            {
                "id": one.card.id,
                "spec": one.card.spec,
                "how": one.card.how,
                "right": one.card.right,
                "reports": list(one.card.reports),
                "torch": one.torch,
                "outcome": one.outcome,
                "told": one.told,
                "differs": one.differs,
                "outcomes": {release: {"outcome": o.outcome, "told": o.told} for release, o in one.card.outcomes.items()},
            }
            for one in self.shown
        ]

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{escape(one.card.id)}</td><td>{escape(one.card.spec)}</td><td>{one.outcome or 'not run'}</td>"
            f"<td>{escape(one.told)}</td><td>{escape(one.card.right)}</td></tr>"
            for one in self.shown
        ]
        heads = "".join(f"<th>{head}</th>" for head in ("card", "tensor", "here", "what came out", "right"))
        return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


@cache
def cards() -> tuple[Card, ...]:
    """Every card of the museum."""
    found = json.loads(files("shardviz.checks").joinpath("museum.json").read_text("utf-8"))
    return tuple(
        Card(
            one["id"],
            tuple(one["reports"]),
            one["kind"],
            one["spec"],
            one["how"],
            one["right"],
            {release: Outcome(**outcome) for release, outcome in one["outcomes"].items()},
            one.get("why_not", ""),
            one.get("needs", {}),
        )
        for one in found
    )


def museum(
    names: Sequence[str] | str = (), *, timeout: float = PATIENCE, progress: Callable[[str], None] | None = None
) -> Museum:
    """Run cards on real ranks with the installed torch; as many ranks are started as each card needs.

    Args:
        names: which cards, or the name of one; all of them, unless some are named.
        timeout: seconds until a card whose ranks have not come back is taken to hang.
        progress: called with the name of every card that begins.

    Returns:
        What came out, beside what was seen on other releases.

    Raises:
        SpecError: there is no such card.

    Example:
        >>> for shown in museum(["uneven-from-local"]):  # on four ranks
        ...     print(shown.card.id, shown.outcome in ("right", "wrong", "refused", "hangs"))
        uneven-from-local True
    """
    known = {card.id: card for card in cards()}
    asked: Any = names
    if isinstance(asked, str):  # one card
        names = (asked,)
    elif not isinstance(asked, Sequence) or not all(isinstance(name, str) for name in asked):
        raise SpecError(f"names of cards were expected, such as ['uneven-from-local']; got {asked!r}")
    missing = [name for name in names if name not in known]
    if missing:
        raise SpecError(f"the museum has no card {missing[0]!r}; it has {', '.join(known)}")
    wanted = [known[name] for name in names] or list(known.values())
    torch = version("torch").partition("+")[0]
    found = {card.id: Shown(card, torch, None, why) for card in wanted if (why := card.why_not or card.lacking)}
    found |= {one.card.id: one for one in _run([card for card in wanted if card.id not in found], torch, timeout, progress)}
    return Museum(tuple(found[card.id] for card in wanted))


def _installed(package: str) -> str:
    """The version of a package, or ""."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _run(wanted: Sequence[Card], torch: str, timeout: float, progress: Callable[[str], None] | None) -> Iterable[Shown]:
    from shardviz.checks.museum_exhibits import EXHIBITS
    from shardviz.ranks.cluster import Ranks

    for count in sorted({EXHIBITS[card.id][0] for card in wanted}):
        with Ranks(count, timeout=timeout, backend="gloo") as ranks:
            for card in wanted:
                if EXHIBITS[card.id][0] == count:
                    if progress is not None:
                        progress(card.id)
                    yield _show(card, torch, ranks)


def _show(card: Card, torch: str, ranks: Any) -> Shown:
    try:
        answers: list[tuple[Result, str]] = ranks.apply(show, card.id)
    except RankFailure as failure:  # what a rank raises is an answer, so only ranks that wait end here
        return Shown(card, torch, "hangs", str(failure).splitlines()[0])
    for outcome in ("refused", "wrong"):
        told = next((words for found, words in answers if found == outcome), None)
        if told is not None:
            return Shown(card, torch, outcome, told)
    return Shown(card, torch, "right", answers[0][1])


SCRIPT = '''"""{card.id}: {card.spec}. {card.how}.

Right would be: {card.right}

Run it with: torchrun --standalone --nproc-per-node={count} this_file.py
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.tensor.placement_types import _StridedShard


def strided(dim, split_factor):
    """Torch's strided shard."""
    return _StridedShard(dim, split_factor=split_factor)


{body}


if __name__ == "__main__":
    dist.init_process_group("gloo")
    right, what = {call}
    print(f"torch {{torch.__version__}}, rank {{dist.get_rank()}}: {{'right' if right else 'WRONG'}}: {{what}}", flush=True)
    dist.destroy_process_group()
'''

REPORT = """{card.how}: {card.spec}

What should come out: {card.right}

What comes out:
{seen}
{known}
To reproduce:

```python
{script}```
"""
