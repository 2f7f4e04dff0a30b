"""What the lessons remember while a notebook runs: the seed, whose progress it is, whether solutions are shown.

This is the one place of shardviz with state of its own: the first cell of a notebook speaks for all that follow.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from shardviz.lessons.store import Store, progress_path

__all__ = ["Session", "begin", "current"]


@dataclass(frozen=True)
class Session:
    """What holds until the next `start`.

    Attributes:
        seed: of the generated cases and questions.
        name: whose progress it is; "" for the one person of this account.
        solutions: whether solutions are shown on request.
        store: their progress.
    """

    seed: str
    name: str
    solutions: bool
    store: Store = field(compare=False)


_begun: Session | None = None


def current() -> Session:
    """The session, begun with the defaults where nobody began one."""
    return _begun or begin(None, None, None)


def begin(seed: int | str | None, name: str | None, solutions: bool | None) -> Session:
    """Begin a session; what is None stays as it was, or gets its default."""
    global _begun
    before = _begun or Session(os.environ.get("SHARDVIZ_SEED", "0"), "", True, Store(progress_path()))
    new_name = before.name if name is None else name
    path = progress_path(new_name)
    _begun = Session(
        before.seed if seed is None else str(seed),
        new_name,
        before.solutions if solutions is None else solutions,
        before.store if path == before.store.path else Store(path),
    )
    return _begun
