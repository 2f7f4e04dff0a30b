"""What the explorer shows, as texts to copy: for shardviz in Python or a terminal, for a browser, for plain torch."""

from __future__ import annotations

import json
import shlex
from urllib.parse import parse_qs, urlencode

from shardviz.core.errors import SpecError
from shardviz.core.placements import Partial, Placement, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec
from shardviz.widgets.state import Choice, ExplorerState

__all__ = ["FORMS", "command", "python", "query", "read_query", "torch_script"]

FORMS = {
    "notation": "notation",
    "line": "line that restores this view",
    "python": "Python",
    "command": "command line",
    "torch": "torch script",
    "query": "link for a voila page",
}
"""The texts there are, and what they are called."""


def python(choice: Choice) -> str:
    """The same in Python: the layout, the story, and how to see them.

    Example:
        >>> from shardviz.core.spec import parse
        >>> print(python(Choice(parse("[5] on dp=2: S(0)"), to="R")))
        import shardviz as sv
        <BLANKLINE>
        spec = sv.parse("[5] on dp=2: S(0)")
        layout = sv.layout(spec)
        story = sv.redistribute(spec, "R")
        print(layout)
        sv.draw(story).save("story.html")
    """
    reading = "" if choice.reading == "auto" else f', reading="{choice.reading}"'
    method = "" if choice.method == "exact" else f', method="{choice.method}"'
    made = "" if choice.made_by == "auto" else f'.with_made_by("{choice.made_by}")'
    to = json.dumps(choice.to)
    story = f"sv.redistribute(spec, {to}{reading})" if choice.to else f"sv.unshuffle(spec{method}{reading})"
    lines = ["import shardviz as sv", "", f'spec = sv.parse("{choice.spec}"){made}', f"layout = sv.layout(spec{reading})"]
    if choice.answer == "real":
        called = f"ranks.redistribute(spec, {to})" if choice.to else "ranks.run(spec)"
        lines += [f"with sv.Ranks({max(choice.spec.mesh.ranks) + 1}) as ranks:", f"    story = {called}"]
    else:
        lines.append(f"story = {story}")
    return "\n".join([*lines, "print(layout)", 'sv.draw(story).save("story.html")'])


def command(choice: Choice) -> str:
    """The same in a terminal.

    Raises:
        SpecError: the story leads to other placements, which the command line does not tell.

    Example:
        >>> from shardviz.core.spec import parse
        >>> command(Choice(parse("[5] on dp=2: S(0)"), reading="left-to-right"))
        "shardviz draw '[5] on dp=2: S(0)' --story --reading left-to-right -o story.html"
    """
    if choice.to:
        raise SpecError("the command line tells no redistribution: copy this one as Python")
    spec = shlex.quote(str(choice.spec))
    made = "" if choice.made_by == "auto" else f" --made-by {choice.made_by}"
    if choice.answer == "real":
        return f"shardviz run {spec}{made} -o story.html"
    method = "" if choice.method == "exact" else f" --method {choice.method}"
    reading = "" if choice.reading == "auto" else f" --reading {choice.reading}"
    return f"shardviz draw {spec} --story{method}{reading}{made} -o story.html"


def query(state: ExplorerState) -> str:
    """The view as the query of a web address; `explore(query=…)` reads it.

    Example:
        >>> from shardviz.core.spec import parse
        >>> query(ExplorerState(parse("[5] on dp=2: S(0)"), step=2))
        '?spec=%5B5%5D+on+dp%3D2%3A+S%280%29&step=2'
    """
    return "?" + urlencode({"spec": str(state.spec), **state.chosen()})


def read_query(text: str) -> dict[str, str]:
    """The arguments that a query holds; others that a server may add are left out.

    Example:
        >>> read_query("?spec=%5B5%5D+on+dp%3D2%3A+S%280%29&step=2&token=x")
        {'spec': '[5] on dp=2: S(0)', 'step': '2'}
    """
    found = parse_qs(text.removeprefix("?"))
    return {name: found[name][-1] for name in ("spec", "reading", "method", "to", "follow", "made_by", "step") if name in found}


def torch_script(choice: Choice, maker: str) -> str:
    """A program of plain torch that makes the tensor and prints what every rank holds and what torch reports.

    Args:
        choice: the question, and where it is to lead.
        maker: how the tensor comes to be, one of `core.spec.MADE_BY`.

    Raises:
        SpecError: plain torch has no way to make this tensor.
    """
    spec = choice.spec
    if spec.mesh.ranks != tuple(range(spec.mesh.size)):
        raise SpecError(
            f"a torch script is for a mesh of the ranks 0 to {spec.mesh.size - 1}; this one has {spec.mesh.ranks_text()}"
        )
    lead = _LEAD.format(placements=_placements(Spec(spec.shape, spec.mesh, choice.to).placements)) if choice.to else ""
    return _SCRIPT.format(
        spec=spec,
        count=spec.mesh.size,
        shape=spec.shape,
        numel=spec.numel,
        sizes=spec.mesh.sizes,
        names=spec.mesh.names,
        make=_made(spec, maker),
        end=lead,
    )


def _made(spec: Spec, maker: str) -> str:
    placements = _placements(spec.placements)
    match maker:
        case "distribute_tensor":
            return f"tensor = distribute_tensor(whole, mesh, {placements})"
        case "redistribute":
            replica = _placements([Replicate()] * spec.mesh.ndim)
            return f"tensor = distribute_tensor(whole, mesh, {replica}).redistribute(mesh, {placements})"
        case "fsdp2" | "fsdp2-over-tp":
            return _fully_sharded(spec, placements)
    raise SpecError(
        f"plain torch has no call that makes {', '.join(map(str, spec.placements))} of this tensor: shardviz places the shards "
        "itself (DTensor.from_local), so there is no script of torch alone"
    )


def _fully_sharded(spec: Spec, placements: str) -> str:
    count = 2 if isinstance(spec.placements[0], Replicate) and spec.mesh.ndim > 1 else 1
    model, behind = spec.mesh.names[count:], spec.placements[count:]
    if any(isinstance(placement, StridedShard) for placement in behind):
        raise SpecError("FSDP2 over shards that are strided themselves has no script of torch alone")
    cut = spec.placements[count - 1]
    dim = cut.dim if isinstance(cut, Shard | StridedShard) else 0
    names = ", ".join(map(repr, model))
    value = f"distribute_tensor(whole, mesh[{names}], {_placements(behind)})" if model else "whole"
    data = ", ".join(map(repr, spec.mesh.names[:count]))
    return _FSDP.format(value=value, data=data, dim=dim, placements=placements)


def _placements(placements: object) -> str:
    assert isinstance(placements, list | tuple)
    return f"[{', '.join(map(_placement, placements))}]"


def _placement(placement: Placement) -> str:
    match placement:
        case Replicate():
            return "Replicate()"
        case Shard(dim):
            return f"Shard({dim})"
        case StridedShard(dim, factor):
            return f"_StridedShard({dim}, split_factor={factor})"
        case Partial(op):
            return f"Partial({op!r})"


_FSDP = """module = nn.Module()
module.weight = nn.Parameter({value})
fully_shard(module, mesh=mesh[{data}], shard_placement_fn=lambda _: Shard({dim}))
tensor = module.weight
assert tensor.placements == tuple({placements}), tensor.placements"""

_LEAD = """
led = tensor.redistribute(mesh, {placements})
print(f"rank {{dist.get_rank()}} after redistribute: {{led.to_local().flatten().tolist()}}", flush=True)"""

_SCRIPT = '''"""{spec}

Run it with: torchrun --standalone --nproc-per-node={count} this_file.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", {sizes}, mesh_dim_names={names})
whole = torch.arange({numel}, dtype=torch.float32).reshape({shape})

{make}

local = tensor.to_local().detach()
shape, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, tensor.placements)
print(
    f"rank {{dist.get_rank()}} {{mesh.get_coordinate()}} holds {{[int(value) for value in local.flatten()]}}; "
    f"torch reports shape {{tuple(shape)}} at offset {{tuple(offset)}}",
    flush=True,
)
right = torch.equal(tensor.full_tensor(), whole)
print(f"rank {{dist.get_rank()}}: full_tensor() is {{'right' if right else 'WRONG'}}", flush=True){end}
dist.destroy_process_group()
'''
