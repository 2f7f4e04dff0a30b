"""Words on pictures and their text forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardviz.core.layout import Layout
from shardviz.core.runs import Runs, run_text
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Step, Trace
from shardviz.picture.facts import held_once

__all__ = ["buffer_words", "bytes_text", "held_words", "layout_words", "number", "sent_text", "trace_words"]

RANKS, RUNS = 64, 24
"""The most ranks, and the most runs of each, that a text form lists one by one."""


def number(value: int) -> str:
    """A number with its thousands set apart.

    Example:
        >>> number(50257)
        '50,257'
    """
    return f"{value:,}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 rank`, `2 ranks`."""
    return f"{number(count)} {noun}{'s' * (count != 1)}"


def tensor_words(spec: Spec) -> str:
    """A tensor in a title: `5 elements`, `[7, 5]`, `a scalar`."""
    if not spec.shape:
        return "a scalar"
    return plural(spec.numel, "element") if spec.ndim == 1 else f"[{', '.join(map(str, spec.shape))}]"


def bytes_text(count: int, short: bool = False) -> str:
    """An amount of data: `0 bytes`, `16 bytes`, `7.8 GB` (decimal units)."""
    for unit, size, least in (("GB", 1e9, 1e9), ("MB", 1e6, 1e6), ("kB", 1e3, 1e4)):
        if count >= least:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{number(count)} B" if short else plural(count, "byte")


def sent_text(step: Step) -> str:
    """What the ranks send in a step, in a few words."""
    if step.kind != "collective":
        return "nothing is sent"
    low, high = min(step.bytes), max(step.bytes)
    if bytes_text(low) == bytes_text(high):
        return f"each rank sends {'about ' * (low != high)}{bytes_text(low)}"
    return f"ranks send {bytes_text(low, True)} to {bytes_text(high, True)}"


def buffer_words(buffer: Buffer, most: int = RUNS) -> str:
    """A buffer in words, as `core.trace.buffer_text` has it, with at most so many runs of each dimension."""
    if not buffer.shape:
        text = "the scalar"
    elif not buffer.numel:
        text = "nothing"
    else:
        text = " x ".join(_runs(runs, most) for runs in (buffer.axes or (buffer.cells or (),)))
    return f"addend of {text}" if buffer.pending else text


def layout_words(layout: Layout) -> str:
    """The text form of a layout: all of it, or its statistics and first and last ranks where there are many."""
    if len(layout) <= RANKS and all(len(runs) <= RUNS for held in layout for runs in held.runs):
        return layout.text
    buffers = [Buffer(held.runs, held.shape) for held in layout]
    shown = _shown(len(layout))
    said = [f"rank {rank} {words}" for rank, words in list(layout.misfits.items())[:RANKS]]
    lines = [layout.heading, *said, statistics(buffers)]
    lines += [f"rank {layout.ranks[i].rank} {layout.ranks[i].coordinate}: {buffer_words(buffers[i])}" for i in shown]
    return "\n".join(_with_gap(lines, len(layout), shown))


def trace_words(trace: Trace) -> str:
    """The text form of a story; of many ranks, the statistics of every step with its first and last ranks."""
    few = len(trace.ranks) <= RANKS
    if few and all(len(r) <= RUNS for s in trace.steps for b in s.buffers for r in (*b.axes, b.cells or ())):
        return trace.text
    shown = _shown(len(trace.ranks))
    lines = [f"{trace.spec}: {trace.source.text}"]
    for place, step in enumerate(trace.steps, 1):
        lines.append(f"{place}. {step.name} ({sent_text(step)}): {step.sentence}")
        lines.append(f"   {statistics(step.buffers)}")
        lines += [f"   rank {trace.ranks[i]}: {buffer_words(step.buffers[i])}" for i in shown]
        lines = _with_gap(lines, len(trace.ranks), shown, "   ")
    return "\n".join([*lines, trace.end] if trace.end else lines)


def held_words(spec: Spec, buffers: Sequence[Buffer]) -> list[str]:
    """What every rank has, a line each; the statistics and the first and last of many ranks."""
    shown = _shown(len(buffers))
    lines = [f"rank {spec.mesh.ranks[i]}: {buffer_words(buffers[i])}" for i in shown]
    return lines if len(shown) == len(buffers) else [statistics(buffers), *_with_gap(lines, len(buffers), shown)]


def statistics(buffers: Sequence[Buffer]) -> str:
    """How much the ranks have: `1,016 ranks have 976,563 elements each, 8 have 976,499 each`."""
    padded = any(run[0] < 0 for buffer in set(buffers) for runs in (*buffer.axes, buffer.cells or ()) for run in runs)
    noun = "slot" if padded else "element"
    sizes = sorted(Counter(buffer.numel for buffer in buffers).items(), reverse=True)
    parts = []
    for place, (size, count) in enumerate(sizes[:3]):
        who = plural(count, "rank") if not place else number(count)
        what = "nothing" if not size else plural(size, noun) if not place else number(size)
        parts.append(f"{who} {'has' if count == 1 else 'have'} {what}{' each' * (count > 1 and size > 0)}")
    rest = sizes[3:]
    if rest:
        parts.append(f"{number(sum(count for _, count in rest))} have {number(rest[0][0])} to {number(rest[-1][0])}")
    filled = [buffer for buffer in buffers if buffer.numel and not buffer.pending]
    once = len(held_once(buffers))
    alike = "" if once == len(filled) else "; all the same" if once == 1 else f"; {number(once)} different parts"
    return ", ".join(parts) + alike


def _runs(runs: Runs, most: int) -> str:
    if not runs:
        return "nothing"
    text = " ".join(run_text(run) for run in runs[:most])
    return f"{text} … ({number(len(runs) - most)} runs more)" if len(runs) > most else text


def _shown(count: int) -> list[int]:
    return list(range(count)) if count <= RANKS else [*range(24), *range(count - 8, count)]


def _with_gap(lines: list[str], count: int, shown: Sequence[int], indent: str = "") -> list[str]:
    """Say how many ranks are not listed, before the last eight."""
    if len(shown) == count:
        return lines
    gap = f"{indent}… {number(count - len(shown))} ranks are not listed …"
    return [*lines[:-8], gap, *lines[-8:]]
