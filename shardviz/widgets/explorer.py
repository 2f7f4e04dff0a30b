"""`explore`: put a question, see its answers, run it on real ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardviz.checks.audits.audit import audit
from shardviz.checks.audits.parameter import Parameter
from shardviz.checks.audits.report import Audit
from shardviz.core.errors import SpecError
from shardviz.core.layout import READINGS
from shardviz.core.mesh import Mesh
from shardviz.core.spec import MADE_BY, Spec, as_spec, parse
from shardviz.core.unshuffle import METHODS
from shardviz.widgets.examples import examples
from shardviz.widgets.runner import Runner
from shardviz.widgets.snippets import read_query
from shardviz.widgets.state import Choice
from shardviz.widgets.view import Explorer

__all__ = ["Explorer", "explore"]

EXAMPLE = "[5] on dp=2, tp=2: _S(0, 2), S(0)"


def explore(
    spec: Spec | str | None = None,
    *,
    reading: str = "auto",
    method: str = "exact",
    to: str = "",
    follow: str = "",
    made_by: str = "auto",
    step: int = 0,
    model: Any = None,
    mesh: str | Mapping[str, int] | Mesh | None = None,
    plan: Any = None,
    query: str = "",
    max_ranks: int = 16,
) -> Explorer:
    """Open the explorer: choose a shape, a mesh and placements; see who holds what and how it comes together.

    Args:
        spec: the question to begin with, or its notation; by default the gravest parameter of a model, or a tensor of five
            elements over four ranks.
        reading: how placements become indices; see `layout`.
        method: how the predicted reconstruction is done; see `unshuffle`.
        to: placements that the story leads to, as text; the whole tensor on every rank where it is empty.
        follow: the global index of an element to follow, such as `"3"` or `"3, 0"`.
        made_by: who made the tensor, such as `"fsdp2"` or `"distribute_tensor"`: one label can stand for two layouts.
        step: number of the story's step to begin with, from 0.
        model: a model or a file of parameters, as `audit` takes it; its parameters then stand among the examples, faulty ones
            first.
        mesh: the mesh of that model, as `audit` takes it.
        plan: the plan of that model, as `audit` takes it.
        query: the query of a web address, which goes before the other arguments; in a notebook that voila serves as a page it
            is `os.environ.get("QUERY_STRING", "")`, and `?spec=…&step=4` then opens that view.
        max_ranks: the most real ranks that its button starts.

    Returns:
        A widget that shows itself at the end of a notebook cell. Its `state` may be set and observed by a program, and
        `state.link()` is a line of Python that opens the same view again.

    Raises:
        NotationError: the notation cannot be read.
        SpecError: there is no such reading or method, or the model needs a mesh.
    """
    found = examples(_parameters(model, mesh, plan) if model is not None else ())
    if spec is None:
        spec = found[0].spec if model is not None else EXAMPLE
    choice = Choice(as_spec(spec), reading, method=method, to=to, follow=follow, made_by=made_by)
    explorer = Explorer(Choice(choice.spec), Runner(max_ranks), found)
    _choose(explorer, choice, step)
    asked = read_query(query)
    if asked:
        try:
            wanted = {name: value for name, value in asked.items() if name not in ("spec", "step")}
            first = {name: getattr(choice, name) for name in ("reading", "method", "to", "follow", "made_by")} | wanted
            _choose(
                explorer,
                Choice(parse(asked["spec"]) if "spec" in asked else choice.spec, **first),
                _number(asked.get("step", str(step))),
            )
        except SpecError as error:  # whoever follows a link sees what is wrong with it, and an explorer
            explorer.state.failure = f"the link cannot be followed: {error}"
    explorer.history.forget()
    return explorer


def _parameters(model: Any, mesh: str | Mapping[str, int] | Mesh | None, plan: Any) -> tuple[Parameter, ...]:
    report = audit(model, mesh=mesh, plan=plan)
    assert isinstance(report, Audit), "without ranks it is one"
    return report.parameters


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SpecError(f"step {text[:20]!r}: a step is a whole number, from 0") from None


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SpecError(f"there is no {name} {value!r}; there are {', '.join(allowed)}")


def _choose(explorer: Explorer, choice: Choice, step: int) -> None:
    _check("reading", choice.reading, ("auto", *READINGS))
    _check("method", choice.method, METHODS)
    _check("made_by", choice.made_by, ("auto", *MADE_BY))
    explorer.state.restore(choice)
    explorer.state.step = min(max(step, 0), max(len(explorer.player.names) - 1, 0))
