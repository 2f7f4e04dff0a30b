"""The whole job once, left in a directory: pictures, a page and the trace of one recorded run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shardviz.core.compare import Difference, disagreements
from shardviz.core.errors import FileError
from shardviz.core.layout import layout
from shardviz.core.trace import Trace
from shardviz.picture import Section, draw, draw_held, page

__all__ = ["run_page", "write_demo"]

MOST = 12
"""The most differences that the page lists one by one."""


def write_demo(trace: Trace, directory: Path) -> list[tuple[Path, str]]:
    """Write a recorded run to a directory.

    Args:
        trace: what `Ranks.run` returned.
        directory: made where it is missing; files of an earlier demo in it are replaced.

    Returns:
        The files, each with a few words on what it is.

    Raises:
        FileError: the directory cannot be written.
    """
    pictures = {
        "layout": (draw_held(trace), "what every rank holds, against what torch reports"),
        "story": (draw(trace), "how the ranks put the tensor back together"),
    }
    if trace.torch is not None:
        pictures["torch-story"] = (draw(trace.torch), "what torch's full_tensor() does on the same ranks")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        index = directory / "index.html"
        index.write_text(run_page(trace), "utf-8")
    except OSError as error:
        raise FileError(f"the demo cannot be written to {directory}: {error.strerror}") from error
    files = [(index, "everything on one page; open this first")]
    for name, (picture, what) in pictures.items():
        files += [(picture.save(directory / f"{name}.{suffix}"), what) for suffix in ("svg", "png")]
    return [*files, (trace.save(directory / "trace.json"), "the recorded run; shardviz.load reads it")]


def run_page(trace: Trace) -> str:
    """Everything that a recorded run found, as one self-contained page."""
    return page(str(trace.spec), list(_sections(trace)), trace.source.text)


def _sections(trace: Trace) -> Iterator[Section]:
    predicted = layout(trace.spec)
    found = disagreements(trace, predicted)
    yield Section(prose=_summary(trace, found))
    yield Section(
        "What every rank holds",
        "Filled: read off each rank's real shard. Outlined: the shape and offset that the installed torch reports.",
        draw_held(trace),
    )
    yield Section(
        "How the ranks put it back together",
        "Recorded after every operation of shardviz's own reconstruction: pad, all-gather, unpad, unshuffle, with sizes that "
        "come from arithmetic. Step through it; point at an element to follow it.",
        draw(trace),
    )
    if trace.torch is not None:
        yield Section(
            "What torch does",
            "The operations of full_tensor() on the same ranks, named as torch names them." + _ended(trace.torch),
            draw(trace.torch),
        )


def _summary(trace: Trace, found: tuple[Difference, ...]) -> str:
    agrees = "as predicted" if trace.holds(layout(trace.spec)) else "not what was predicted"
    own = "right" if trace.right else "wrong"
    lines = [f"{len(trace.ranks)} ranks hold {agrees}. shardviz's reconstruction is {own} on every rank."]
    if trace.torch is not None:
        lines[0] += f" torch's full_tensor() is {'right' if trace.torch.right else 'wrong'}."
    if not found:
        return f"{lines[0]} Prediction, ranks and torch agree."
    listed = "; ".join(difference.sentence for difference in found[:MOST])
    rest = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"{lines[0]}\n\nWhat differs: {listed}{rest}."


def _ended(trace: Trace) -> str:
    return f"\n\nIt did not finish: {trace.end}" if trace.end else ""
