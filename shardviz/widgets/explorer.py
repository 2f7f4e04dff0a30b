"""`explore`: put a question, see its answers, run it on real ranks."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

import ipywidgets
from traitlets import dlink, link

from shardviz.core.compare import disagreements
from shardviz.core.errors import ReadingError, RequestError, ShardvizError
from shardviz.core.layout import Layout, layout
from shardviz.core.spec import Spec, parse
from shardviz.core.trace import Trace
from shardviz.core.unshuffle import unshuffle
from shardviz.picture import draw, draw_held
from shardviz.widgets.controls import Controls
from shardviz.widgets.fields import suggestions
from shardviz.widgets.framed import framed
from shardviz.widgets.player import Player
from shardviz.widgets.runner import Runner
from shardviz.widgets.state import ExplorerState, readings_note

__all__ = ["Explorer", "explore"]

EXAMPLE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
INPUTS = ("notation", "shape", "rows", "reading", "answer", "story")
OUTPUTS = ("busy", "progress", "fraction", "failure")
STORIES = {"shardviz": "How the ranks put it together", "torch": "What torch's full_tensor() did"}


def explore(spec: Spec | str | None = None, *, max_ranks: int = 16) -> Explorer:
    """Open the explorer: choose a shape, a mesh and placements; see who holds what and how it comes together.

    Args:
        spec: the question to begin with, or its notation; by default a tensor of five elements over four ranks.
        max_ranks: the most real ranks that its button starts.

    Returns:
        A widget that shows itself at the end of a notebook cell. Its `state` may be set and observed by a program.

    Raises:
        NotationError: the notation cannot be read.
    """
    return Explorer(parse(spec) if isinstance(spec, str) else spec or parse(EXAMPLE), Runner(max_ranks))


def _shown(method: Callable[..., None]) -> Callable[..., None]:
    """Take the explorer's lock, and show an exception in its panel: a widget's own ones vanish in a log."""

    @wraps(method)
    def guarded(self: Explorer, *args: Any) -> None:
        with self._lock:
            try:
                method(self, *args)
            except Exception as error:
                self._fail(error)

    return guarded


class Explorer(ipywidgets.VBox):
    """The explorer widget; `explore` makes one.

    Args:
        spec: the question to begin with.
        runner: runs specs on real ranks.

    Attributes:
        state: what it shows, as traits; set them to drive it from a program.
        controls: the view of the state.
        picture: the layout.
        player: the story.
        runner: the ranks.
        recordings: what was recorded, by spec.
    """

    def __init__(self, spec: Spec, runner: Runner) -> None:
        self.state = ExplorerState(spec)
        self.controls = Controls()
        self.picture = ipywidgets.HTML()
        self.player = Player()
        self.runner = runner
        self.recordings: dict[Spec, Trace] = {}
        # The kernel may handle messages of widgets in another thread than cells, and a run ends in a third.
        self._lock = threading.RLock()
        grid = ipywidgets.Box([self.controls, self.picture, self.player])
        grid.add_class("shardviz-grid")
        super().__init__([grid])
        self.add_class("shardviz-explorer")
        for name in INPUTS:
            link((self.state, name), (self.controls, name))
        link((self.state, "step"), (self.player, "step"))
        for name in OUTPUTS:
            dlink((self.state, name), (self.controls, name))
        self.state.observe(self._show_errors, "errors")
        self.state.observe(self.render, ["spec", "reading", "answer", "story"])
        self.controls.on_msg(self._act)
        self.render()

    @_shown
    def render(self, _change: object = None) -> None:
        """Show what the state says; what cannot be shown leaves the pictures as they were."""
        state, spec = self.state, self.state.spec
        trace = self.recordings.get(spec) if state.answer == "real" else None
        try:
            predicted = layout(trace.spec if trace else spec, state.reading)
        except ReadingError as error:
            self.controls.errors = {**state.errors, "reading": str(error)}
            return
        story = unshuffle(spec, reading=state.reading) if trace is None else trace
        if trace is not None and trace.torch is not None and state.story == "torch":
            story = trace.torch
        with self.controls.hold_sync():
            self._say(predicted, trace)
            self.controls.errors = dict(state.errors)
        self.picture.value = framed(draw_held(trace) if trace else draw(predicted), "Picture of the layout")
        self.player.show(story, STORIES[state.story if trace else "shardviz"])

    def _say(self, predicted: Layout, trace: Trace | None) -> None:
        """Everything about the answer that is said in words."""
        spec, controls = self.state.spec, self.controls
        controls.suggestions = suggestions(spec)
        controls.size = _size(spec)
        controls.note = readings_note(spec)
        controls.stories = list(STORIES) if trace and trace.torch else []
        controls.source = trace.source.text if trace else f"predicted, read as {predicted.reading}"
        not_yet = self.state.answer == "real" and trace is None
        controls.hint = "Not run yet with this spec: until it is, the prediction is shown." if not_yet else ""
        found = disagreements(trace, predicted) if trace else ()
        controls.differences = [difference.sentence for difference in found]
        controls.verdict = _verdict(len(found)) if trace else ""

    @_shown
    def _show_errors(self, _change: object) -> None:
        self.controls.errors = dict(self.state.errors)

    @_shown
    def _act(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        match message.get("do"):
            case "run":
                self.run()
            case "stop":
                self.stop()
            case "add":
                self.state.add_dimension()
            case "remove":
                self.state.remove_dimension(int(message["row"]))
            case "dismiss":
                self.state.failure = ""

    def run(self) -> None:
        """Begin to run the present spec on real ranks; what is recorded is shown when it is there."""
        state, spec = self.state, self.state.spec
        state.failure = ""
        if self.runner.busy:
            return
        state.busy, state.progress, state.fraction = True, "starting", 0.0
        try:
            self.runner.run(spec, self._tell, lambda result: self._ended(spec, result))
        except RequestError as error:
            state.busy, state.progress = False, ""
            state.failure = str(error)

    def stop(self) -> None:
        """Make the run end at once."""
        self.state.progress = "stopping …"
        self.runner.stop()

    def close(self) -> None:
        """End the ranks, and take the widget off the page."""
        self.runner.close()
        for part in (self.controls, self.picture, self.player, *self.children):
            part.close()
        super().close()

    @_shown
    def _tell(self, sentence: str, fraction: float) -> None:
        if self.runner.busy:
            self.state.progress, self.state.fraction = sentence, fraction

    @_shown
    def _ended(self, spec: Spec, result: Trace | Exception) -> None:
        self.state.busy = False
        self.state.progress = ""
        if isinstance(result, Trace):
            self.recordings[spec] = result
            if spec == self.state.spec:
                self._show_recorded()
        elif self.runner.stopping:
            self.state.progress = "The run was stopped."
        else:
            raise result

    def _show_recorded(self) -> None:
        if self.state.answer == "real":
            self.render()
        else:
            self.state.answer = "real"

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ShardvizError):
            self.state.failure = str(error)
        else:
            self.state.failure = "".join(traceback.format_exception(error))

    def __repr__(self) -> str:
        return f"<Explorer of {self.state.spec}: {self.state.answer}>"


def _size(spec: Spec) -> str:
    """`2 × 2 = 4 ranks`, with their numbers where these are not the first ones."""
    mesh = spec.mesh
    product = f"{' × '.join(map(str, mesh.sizes))} = " if mesh.ndim > 1 else ""
    numbers = "" if mesh.ranks == tuple(range(mesh.size)) else f" ({mesh.ranks_text()})"
    return f"{product}{mesh.size} rank{'s' * (mesh.size != 1)}{numbers}"


def _verdict(count: int) -> str:
    if not count:
        return "All answers agree: predicted, held, reported, and both reconstructions."
    return f"{count} disagreement{'s' * (count != 1)}"
