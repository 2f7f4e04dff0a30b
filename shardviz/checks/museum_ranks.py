"""How the museum calls an exhibit in a rank; imported on both sides, so no torch at the top."""

from __future__ import annotations

__all__ = ["show"]


def show(card: str) -> tuple[str, str]:
    """Called in a rank: what came of a card's exhibit there ("right", "wrong" or "refused"), and what it was."""
    from shardviz.checks.museum_exhibits import EXHIBITS

    _, exhibit, arguments = EXHIBITS[card]
    try:
        right, said = exhibit(*arguments)
    except BaseException as error:  # a checkpoint's exception is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return "refused", f"{type(error).__name__}: {lines[-1] if lines else 'without text'}"[:300]
    return ("right" if right else "wrong"), said
