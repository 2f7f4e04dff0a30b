"""From facts to pictures: layouts, what ranks hold against what torch reports, stories, and recorded programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardviz.core.compare import Comparison, held_text
from shardviz.core.errors import SpecError
from shardviz.core.forward import forward_buffers, forward_spec
from shardviz.core.layout import Layout, layout
from shardviz.core.live import Live, held_buffers
from shardviz.core.recording import Recording
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report, Source, Trace
from shardviz.core.whole import whole
from shardviz.picture.compared import draw_comparison
from shardviz.picture.drawn import Frame, Table
from shardviz.picture.facts import coordinate_text, drawn_dims, owners
from shardviz.picture.layout_facts import Facts, layout_title
from shardviz.picture.picture import Picture
from shardviz.picture.recording_facts import Totals, all_ranks, recording_table, recording_title
from shardviz.picture.scene import Scene
from shardviz.picture.scene_cards import cards_scene, facet_dims
from shardviz.picture.scene_grid import View
from shardviz.picture.scene_layout import lanes_scene
from shardviz.picture.scene_overview import overview_scene
from shardviz.picture.scene_recording import recording_scene
from shardviz.picture.scene_recording_overview import recording_overview
from shardviz.picture.scene_story import frame_scenes, strip_scene, title
from shardviz.picture.story_plan import story_view
from shardviz.picture.words import RANKS, buffer_words, held_words, layout_words, number, sent_text, trace_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_RANKS, MOST_EVENTS = 16, 24
"""The most ranks and collectives that are drawn one by one; more of them get an overview."""

LANES = 32
"""The most ranks that have a lane or a card of their own; more of them get an overview."""


def draw(
    what: Layout | Trace | Comparison | Recording | Spec | Any,
    *,
    step: int | None = None,
    everywhere: bool = False,
    ax: Axes | None = None,
) -> Picture:
    """Draw a layout, a story, two answers that were compared, or the collectives of a recorded program.

    Args:
        what: a layout, a trace, a comparison or a recording; or a spec, whose predicted layout is drawn; or a live DTensor:
            its predicted layout, with a red word where the local shape of this rank is another one.
        step: of a story, one step's number from 0; every step then gives a picture of the same size.
        everywhere: of a live DTensor, ask the other ranks of its mesh for their local shapes. It is a collective: all of them
            must then call it at the same time.
        ax: a subplot of your own to draw into; the picture is given back as well.

    Raises:
        SpecError: `what` is none of these, has no such step, or is no live DTensor although `everywhere` is asked for.

    Example:
        >>> print(draw("[6] on tp=4: S(0)"))  # ceil(6 / 4) = 2: 2 + 2 + 2 + 0
        [6] on tp=4: S(0) (sharding-order)
        rank 0 (0,): 0 1
        rank 1 (1,): 2 3
        rank 2 (2,): 4 5
        rank 3 (3,): nothing
    """
    picture = _drawn(what, step, everywhere)
    if ax is not None:
        picture.draw_into(ax)
    return picture


def _drawn(what: Layout | Trace | Comparison | Recording | Spec | Any, step: int | None, everywhere: bool) -> Picture:
    if everywhere:
        what = _live(what, everywhere).layout
    if step is not None and not isinstance(what, Trace):
        raise SpecError(f"only a story has steps, such as unshuffle(spec) gives: step={step!r} of a {type(what).__name__}")
    if isinstance(what, Comparison):
        return draw_comparison(what)
    if isinstance(what, Recording):
        totals = Totals.of(what)
        many = len(all_ranks(what)) > MOST_RANKS or len(what.events) > MOST_EVENTS
        scene = (recording_overview if many else recording_scene)(what, totals)
        return Picture(scene, recording_title(what), what.text, recording_table(what, totals))
    if not isinstance(what, Layout | Trace):
        what = what.layout if isinstance(what, Live) else layout(_asked(what))
    if isinstance(what, Layout):
        source = Source("predicted", notice=", ".join(filter(None, (what.seen_text, what.note))))
        facts = _facts(what.spec, held_buffers(what), source, (), "" if what.note else what.reading, what.misfits)
        return _layout_picture(facts, layout_words(what))
    if step is None:
        scenes = frame_scenes(what, range(len(what.steps)), bare=True)
        frames = tuple(Frame(scene, now.name, now.sentence) for scene, now in zip(scenes, what.steps, strict=True))
        dims = _dims(story_view(what))
        return Picture(strip_scene(what), title(what), trace_words(what), _story_table(what), frames, what.spec.shape, dims)
    count = len(what.steps)
    if whole(step) is None or not -count <= step < count:
        raise SpecError(
            f"step={step!r}: the story has {count} steps, step=0 to step={count - 1}, which pictures call 1 to {count}"
        )
    now = what.steps[step]
    place = range(len(what.steps))[step]
    text = [f"{what.spec}: {what.source.text}", f"{place + 1}. {now.name} ({sent_text(now)}): {now.sentence}"]
    text += held_words(what.spec, now.buffers)
    (scene,) = frame_scenes(what, [place])
    name, dims = f"{place + 1} · {now.name}", _dims(story_view(what))
    return Picture(scene, name, "\n".join(text), _story_table(what), (), what.spec.shape, dims)


def draw_layout(
    spec: Spec,
    buffers: Sequence[Buffer],
    source: Source,
    reports: Sequence[Report] = (),
    reading: str = "",
    said: Mapping[int, str] | None = None,
) -> Picture:
    """Draw what ranks hold, filled, and what torch reports of it, outlined; where they part, in red and in words.

    Args:
        spec: the tensor's spec.
        buffers: what each rank holds, in the mesh's order.
        source: where the buffers come from.
        reports: what torch says, where that is known.
        reading: how the placements were read, where the buffers were predicted.
        said: what is wrong with a rank by other knowledge, in words, by rank.
    """
    facts = _facts(spec, tuple(buffers), source, tuple(reports), reading, said or {})
    lines = [f"{spec}: {source.text}", *held_words(spec, facts.buffers)]
    lines += [f"rank {spec.mesh.ranks[position]} {facts.difference(position)}" for position in facts.differing]
    return _layout_picture(facts, "\n".join(lines))


def draw_held(held: Trace | Live | Any, *, everywhere: bool = False) -> Picture:
    """Draw what the ranks held at the start of a story, or hold of a live DTensor, with what torch reports of it.

    Args:
        held: a story, recorded or predicted; or a live DTensor. Of that one the elements are placed by arithmetic; what this
            rank holds is compared with it, and what differs is said in red.
        everywhere: of a live DTensor, ask the other ranks of its mesh for their local shapes. It is a collective: all of them
            must then call it at the same time.

    Example:
        >>> from shardviz.core.unshuffle import unshuffle
        >>> print(draw_held(unshuffle("[3] on tp=2: S(0)")))
        [3] on tp=2: S(0): predicted
        rank 0: 0 1
        rank 1: 2
    """
    if isinstance(held, Trace) and not everywhere:
        return draw_layout(held.spec, held.held, held.source, held.reported)
    live = _live(held, everywhere)
    parts = live.layout
    return draw_layout(
        live.spec, held_buffers(parts), live.source, live.reports, "" if parts.note else parts.reading, parts.misfits
    )


def draw_used(trace: Trace) -> Picture:
    """Draw what each rank's forward pass uses of a parameter, after FSDP2's `unshard()`; of a prediction, what it should.

    Args:
        trace: a story of a parameter that FSDP2 makes.

    Raises:
        SpecError: the story was recorded, and not of a parameter that FSDP2 made: nothing unshards it.

    Example:
        >>> from shardviz.core.unshuffle import unshuffle
        >>> print(draw_used(unshuffle("[5] on dp=2, tp=2: _S(0, 2), S(0)")))  # the cut over dp is undone, that over tp stays
        [5] on dp=2, tp=2: R, S(0): predicted
        rank 0: 0-2
        rank 1: 3 4
        rank 2: 0-2
        rank 3: 3 4
    """
    if not isinstance(trace, Trace):
        raise SpecError(f"a story was expected, such as Ranks.run gives; got {type(trace).__name__}")
    right = forward_buffers(trace.spec)
    if trace.source.answer != "predicted" and not trace.used:
        raise SpecError(f"{trace.spec} was made by {trace.source.made_by}: only of what FSDP2 made a forward pass was recorded")
    used = trace.used or right
    said = {
        rank: f"uses {held_text(trace.spec.shape, one)}; right would be {held_text(trace.spec.shape, other)}"
        for rank, one, other in zip(trace.ranks, used, right, strict=True)
        if one != other
    }
    source = replace(trace.source, answer="used") if trace.used else trace.source
    return draw_layout(forward_spec(trace.spec), used, source, said=said)


def _live(what: Any, everywhere: bool) -> Live:
    """A live tensor as facts; what are facts already stays so."""
    if isinstance(what, Live) and not everywhere:
        return what
    Spec.of(what)  # anything but a DTensor is refused, without torch
    from shardviz.tensors.live import live  # a DTensor is there, so torch is

    return live(what, everywhere)


def _asked(what: Any) -> Any:
    """A spec, its notation, or a DTensor; anything else is refused as no DTensor."""
    if not isinstance(what, Spec | str):
        Spec.of(what)
    return what


def _facts(
    spec: Spec,
    buffers: tuple[Buffer, ...],
    source: Source,
    reports: tuple[Report, ...],
    reading: str,
    said: Mapping[int, str],
) -> Facts:
    return Facts(spec, buffers, source, owners(spec, buffers), reports, reading, said)


def _layout_picture(facts: Facts, text: str) -> Picture:
    scene, dims = _layout_scene(facts)
    return Picture(scene, layout_title(facts), text, _layout_table(facts), (), facts.spec.shape, dims)


def _layout_scene(facts: Facts) -> tuple[Scene, tuple[int, ...]]:
    """The scene, and the dimensions that are drawn."""
    dims = drawn_dims(facts.spec, facts.buffers)
    ranks, ndim = len(facts.buffers), facts.spec.ndim
    if ranks > LANES:
        return overview_scene(facts, View.of(facts.spec, facts.owned, dims)), dims
    uncut = not any(facts.spec.cuts(dim) for dim in range(ndim))
    if ndim < 2 or (ndim == 2 and len(dims) == 1 and not uncut):
        return lanes_scene(facts, View.of(facts.spec, facts.owned, dims)), dims
    dims = facet_dims(facts, dims)
    return cards_scene(facts, View.of(facts.spec, facts.owned, dims)), dims


def _dims(view: View) -> tuple[int, ...]:
    return (*view.rows, *view.cols)


def _layout_table(facts: Facts) -> Table:
    head = ("rank", "coordinate", "holds", "elements", *(("torch reports",) if facts.reports else ()))
    rows = []
    for position, buffer in enumerate(facts.buffers[:RANKS]):
        row = [str(facts.spec.mesh.ranks[position]), coordinate_text(facts.spec, position)]
        row += [buffer_words(buffer), number(buffer.numel)]
        if facts.reports:
            row.append(facts.difference(position) or "the same")
        rows.append(tuple(row))
    return Table(head, tuple(rows))


def _story_table(trace: Trace) -> Table:
    head = ("step", "sends", *(f"rank {rank}" for rank in trace.ranks[:RANKS]))
    rows = [
        (f"{place}. {step.name}", sent_text(step), *(buffer_words(b, 8) for b in step.buffers[:RANKS]))
        for place, step in enumerate(trace.steps, 1)
    ]
    return Table(head, tuple(rows))
