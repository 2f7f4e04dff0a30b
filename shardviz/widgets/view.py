"""The explorer widget: its state, the parts that show it, and one way in which all of them are brought up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import ipywidgets
from traitlets import dlink, link

from shardviz.core.errors import ShardvizError
from shardviz.core.spec import Spec
from shardviz.core.trace import Trace
from shardviz.picture import draw, draw_held
from shardviz.widgets.answers import Answer, answer, target_of
from shardviz.widgets.controls import Controls
from shardviz.widgets.examples import Example, grouped
from shardviz.widgets.fields import suggestions
from shardviz.widgets.follow import Follow
from shardviz.widgets.framed import framed
from shardviz.widgets.guess import Guess
from shardviz.widgets.history import History
from shardviz.widgets.panels import Audited, Compared
from shardviz.widgets.part import Part, failure_text
from shardviz.widgets.player import Player
from shardviz.widgets.runner import Runner
from shardviz.widgets.running import Running
from shardviz.widgets.share import Share
from shardviz.widgets.state import Choice, ExplorerState, readings_note
from shardviz.widgets.sweep import Sweep

__all__ = ["Explorer"]

SHOWN = ("spec", "reading", "answer", "story", "method", "to", "made_by")
ASKED = ("notation", "shape", "rows", "reading", "method", "to", "made_by")
TOLD = ("busy", "progress", "fraction", "failure")
HIDING = "sv-guessing"


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
        choice: the question to begin with.
        runner: runs specs on real ranks.
        examples: questions to choose from.

    Attributes:
        state: what it shows, as traits; set them to drive it from a program.
        history: undo and redo of the state.
        controls: the view of the question.
        running: the view of the answer and of runs.
        picture: the layout.
        follow: the element that is followed.
        player: the story.
        compared, guess, sweep, audited, share: the folded parts.
        runner: the ranks.
        recordings: what was recorded, by spec, target and maker.
    """

    def __init__(self, choice: Choice, runner: Runner, examples: Sequence[Example] = ()) -> None:
        self.runner = runner
        self.state = ExplorerState(choice.spec)
        self.history = History(self.state)
        self.controls = Controls(examples=grouped(examples))
        self.running = Running()
        self.picture = ipywidgets.HTML()
        self.follow = Follow()
        self.player = Player()
        self.compared, self.guess, self.audited = Compared(), Guess(), Audited()
        self.sweep, self.share = Sweep(self.state.accept), Share(self.state)
        self.folds = (self.guess, self.compared, self.sweep, self.audited, self.share)
        self.recordings: dict[tuple[Spec, Spec | None, str], Trace] = {}
        self._examples = {one.key: one.spec for one in examples}
        self._answer: Answer | None = None
        self._misfits: dict[str, str] = {}
        self._drawn: object = None
        # The kernel may handle messages of widgets in another thread than cells, and a run ends in a third.
        self._lock = threading.RLock()
        folded = ipywidgets.Box(self.folds)
        folded.add_class("shardviz-folds")
        grid = ipywidgets.Box([self.controls, self.running, self.picture, self.follow, self.player, folded])
        grid.add_class("shardviz-grid")
        super().__init__([grid])
        self.add_class("shardviz-explorer")
        linked = ((self.controls, ASKED), (self.running, ("answer", "story")), (self.follow, ("follow", "step")))
        for part, names in (*linked, (self.player, ("step",))):
            for name in names:
                link((self.state, name), (part, name))
        for name in TOLD:
            dlink((self.state, name), (self.running, name))
        for name in ("can_undo", "can_redo"):
            dlink((self.history, name), (self.running, name))
        self.state.observe(self._complain, "errors")
        self.state.observe(self.render, SHOWN)
        self.guess.observe(self._hide, "hiding")
        for fold in self.folds:
            fold.observe(self._unfold, "unfolded")
        self.controls.observe(self._asked_to_run, "runs")
        for part in (self.controls, self.running):
            part.on_msg(self._act)
        for part in (self.follow, *self.folds):
            if isinstance(part, Part):
                dlink((part, "failure"), (self.state, "failure"))
        self.render()

    @_shown
    def render(self, _change: object = None) -> None:
        """Show what the state says; what cannot be shown leaves the pictures as they were."""
        choice = self.state.choice
        found = answer(choice, self.recordings)
        self._misfits = found if isinstance(found, dict) else {}
        if isinstance(found, dict):
            self._drawn = None
            self._complain()
            return
        key = [getattr(choice, name) for name in SHOWN], id(found.trace)
        if key == self._drawn:  # several traits were set at once, and each of them is told
            return
        self._answer, self._drawn = found, key
        self._say(found)
        self._complain()
        picture = draw_held(found.trace) if found.trace else draw(found.layout)
        self.picture.value = framed(picture, "Picture of the layout")
        self.share.draws(picture)
        self.player.show(found.story, found.heading)
        self.follow.show(found)
        for fold in self.folds:
            if fold.unfolded:
                fold.show(found)

    def _say(self, found: Answer) -> None:
        """Everything about the answer that is said in words."""
        state, spec, controls, running = self.state, self.state.spec, self.controls, self.running
        with controls.hold_sync():
            controls.suggestions = suggestions(spec)
            controls.size = _size(spec)
            controls.note = readings_note(spec)
            controls.predicting = found.trace is None and not state.to.strip()
            controls.verdict, controls.wrong = found.verdict, found.wrong
            controls.differences = list(found.differences)
            if self._examples.get(controls.example) != spec:
                controls.example = next((key for key, one in self._examples.items() if one == spec), "")
        with running.hold_sync():
            running.stories = ["shardviz", "torch"] if found.trace and found.trace.torch else []
            running.source = found.source

    @_shown
    def _complain(self, _change: object = None) -> None:
        """Put messages beside the fields: of what cannot be read, and of choices that do not fit."""
        errors = {**self.state.errors, **self._misfits}
        self.controls.errors = self.running.errors = errors
        self.running.hint = self._hint(bool(errors))

    def _hint(self, wrong: bool) -> str:
        """What the pictures do not say by themselves: that they are not of the present question, or not of a run."""
        if self._answer is None:
            return ""
        if wrong:
            return f"Still shown: {self._answer.layout.spec}."
        if self.state.answer == "real" and self._answer.trace is None:
            return "Not run yet with this spec: until it is, the prediction is shown."
        return ""

    @_shown
    def _unfold(self, change: dict[str, Any]) -> None:
        if change["new"] and self._answer is not None:
            change["owner"].show(self._answer)

    @_shown
    def _hide(self, change: dict[str, Any]) -> None:
        (self.add_class if change["new"] else self.remove_class)(HIDING)

    @_shown
    def _act(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        match message.get("do"):
            case "stop":
                self.stop()
            case "undo":
                self.history.undo()
            case "redo":
                self.history.redo()
            case "add":
                self.state.add_dimension()
            case "remove":
                self.state.remove_dimension(int(message["row"]))
            case "example":
                self.state.accept(self._examples[message["key"]])
                self.controls.example = message["key"]
            case "dismiss":
                self.state.failure = ""

    @_shown
    def _asked_to_run(self, _change: object) -> None:
        self.run()

    def run(self) -> None:
        """Begin to run the present spec on real ranks; what is recorded is shown when it is there.

        Nothing runs while a run is on its way, or while a field has a message: the question that was understood last is not
        the one on the page.
        """
        state, choice = self.state, self.state.choice
        state.failure = ""
        if self.runner.busy:
            return
        if self.controls.errors:
            state.failure = f"Not run: {next(iter(self.controls.errors.values()))}"
            return
        state.busy, state.progress, state.fraction = True, "starting", 0.0
        try:
            target = target_of(choice)
            self.runner.run(choice.question, self._tell, lambda result: self._ended(choice, target, result), target)
        except ShardvizError as error:
            state.busy, state.progress = False, ""
            state.failure = str(error)

    def stop(self) -> None:
        """Make the run end at once."""
        self.state.progress = "stopping …"
        self.runner.stop()

    def close(self) -> None:
        """End the ranks, and take the widget off the page."""
        self.runner.close()
        (grid,) = self.children
        for part in (*self.folds, *grid.children, grid):
            part.close()
        super().close()

    @_shown
    def _tell(self, sentence: str, fraction: float) -> None:
        if self.runner.busy:
            self.state.progress, self.state.fraction = sentence, fraction

    @_shown
    def _ended(self, asked: Choice, target: Spec | None, result: Trace | Exception) -> None:
        state, said = self.state, ""
        try:
            if isinstance(result, Trace):
                self.recordings[asked.spec, target, asked.made_by] = result
                if (asked.spec, asked.made_by) == (
                    state.spec,
                    state.made_by,
                ):  # whether it is what is asked for now decides `answer`
                    if state.answer == "real":
                        self.render()
                    state.answer = "real"
            elif self.runner.stopping:
                said = "The run was stopped."
            else:
                self._fail(result)
        except Exception as error:
            self._fail(error)
        finally:  # last: whoever sees that it is over sees what became of it
            if not self.runner.busy:  # who saw the answer may have begun the next run
                state.progress = said
                state.busy = False

    def _fail(self, error: Exception) -> None:
        self.state.failure = failure_text(error)

    def __repr__(self) -> str:
        return f"<Explorer of {self.state.spec}: {self.state.answer}>"


def _size(spec: Spec) -> str:
    """`2 × 2 = 4 ranks`, with their numbers where these are not the first ones."""
    mesh = spec.mesh
    product = f"{' × '.join(map(str, mesh.sizes))} = " if mesh.ndim > 1 else ""
    numbers = "" if mesh.ranks == tuple(range(mesh.size)) else f" ({mesh.ranks_text()})"
    return f"{product}{mesh.size} rank{'s' * (mesh.size != 1)}{numbers}"
