"""An explorer over runs that are made up, for tests without a browser or ranks."""

from dataclasses import replace

import shardviz as sv
from shardviz.core.forward import forward_spec
from shardviz.core.trace import Report, Source, start
from shardviz.core.unshuffle import unshuffle
from shardviz.widgets.runner import Runner
from shardviz.widgets.state import Choice
from shardviz.widgets.view import Explorer

FIVE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"
NINE = "[9] on dp=4, tp=2: _S(0, 2), S(0)"


class FakeRunner(Runner):
    """Ends every run at once, with what `answer` makes of the spec, or with a redistribution."""

    def __init__(self, answer):
        super().__init__(16)
        self.answer = answer

    def run(self, spec, progress, ended, target=None):
        ended(self.answer(spec) if target is None else replace(sv.redistribute(spec, target.placements), source=source(spec)))


def source(spec):
    return Source("held", spec.mesh.size, "gloo", "2.13.0", ("cpu",) * spec.mesh.size, "fsdp2-over-tp")


def recorded(spec):
    """A run as gloo ranks might have recorded it, the report of the last rank wrong."""
    story = replace(unshuffle(spec), source=source(spec))
    reports = [Report(held.rank, held.shape, held.offset) for held in sv.layout(spec)]
    return replace(
        story,
        reported=(*reports[:-1], replace(reports[-1], offset=(0,))),
        torch=replace(story, method="full_tensor"),
        used=start(sv.layout(forward_spec(spec))),
    )


def explorer(answer=recorded, spec=FIVE):
    return Explorer(Choice(sv.parse(spec)), FakeRunner(answer))


def press(widget, **message):
    """A message as the browser sends it; what the widget sends back."""
    sent = []
    widget.send = lambda content, buffers=None: sent.append((content, buffers))
    widget._handle_custom_msg(message, [])
    return sent
