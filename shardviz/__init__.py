"""See how PyTorch shards a tensor: which rank holds which element, where the padding went, how the pieces come together.

The nouns, each where it lives:

- `Spec`, `Mesh` and the placements (`core`): the question; `parse` reads it from its notation.
- `layout`, `split`, `unshuffle`, `redistribute` (`core`): what arithmetic says each rank holds, and how a tensor is cut, put
  back together and moved to other placements; `explicit_order` and `local_shape_and_offset` say it in numbers.
- `compare`, `disagreements` (`core`): what differs between two answers, and between all answers of one run; `readings` and
  `differing_readings`: where one label means several layouts; `costs`: what a story sends.
- `Ranks` (`ranks`): real ranks; `Ranks.run` records a story on them, `load` reads one from a file.
- `draw`, `draw_held`, `draw_used` (`picture`) and `explore` (`widgets`): see it.
- `audit` (`checks`): what the installed torch will get wrong for a model on a mesh, before the job; `guard`: the same inside a
  job, before the first save; `museum`: every known fault, run here.
- `checkpoint` (`checks`): what a distributed checkpoint holds, down to the stored bytes, and `mend` its rescue;
  `corrected_offsets`: whole saves and loads on a torch that reports offsets wrongly.

Everything is looked up when it is first used: `import shardviz` alone loads neither torch nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardviz.checks.audits.audit import audit as audit
    from shardviz.checks.checkpoints.checkpoint import checkpoint as checkpoint
    from shardviz.checks.checkpoints.mend import mend as mend
    from shardviz.checks.checkpoints.offsets import corrected_offsets as corrected_offsets
    from shardviz.checks.guard import guard as guard
    from shardviz.checks.museum import museum as museum
    from shardviz.core.compare import compare as compare
    from shardviz.core.compare import disagreements as disagreements
    from shardviz.core.costs import costs as costs
    from shardviz.core.errors import ShardvizError as ShardvizError
    from shardviz.core.files import load as load
    from shardviz.core.layout import layout as layout
    from shardviz.core.layout import local_shape_and_offset as local_shape_and_offset
    from shardviz.core.mesh import Mesh as Mesh
    from shardviz.core.order import explicit_order as explicit_order
    from shardviz.core.placements import Partial as Partial
    from shardviz.core.placements import Replicate as Replicate
    from shardviz.core.placements import Shard as Shard
    from shardviz.core.placements import StridedShard as StridedShard
    from shardviz.core.readings import differing_readings as differing_readings
    from shardviz.core.readings import readings as readings
    from shardviz.core.redistribute import redistribute as redistribute
    from shardviz.core.spec import Spec as Spec
    from shardviz.core.spec import parse as parse
    from shardviz.core.split import split as split
    from shardviz.core.unshuffle import unshuffle as unshuffle
    from shardviz.picture import draw as draw
    from shardviz.picture import draw_held as draw_held
    from shardviz.picture import draw_used as draw_used
    from shardviz.ranks.cluster import Ranks as Ranks
    from shardviz.widgets.explorer import explore as explore

__version__ = "0.1.0"

_HOMES = {
    "Mesh": "core.mesh",
    "Partial": "core.placements",
    "Ranks": "ranks.cluster",
    "Replicate": "core.placements",
    "Shard": "core.placements",
    "ShardvizError": "core.errors",
    "Spec": "core.spec",
    "StridedShard": "core.placements",
    "audit": "checks.audits.audit",
    "checkpoint": "checks.checkpoints.checkpoint",
    "compare": "core.compare",
    "corrected_offsets": "checks.checkpoints.offsets",
    "costs": "core.costs",
    "differing_readings": "core.readings",
    "disagreements": "core.compare",
    "draw": "picture",
    "draw_held": "picture",
    "draw_used": "picture",
    "explicit_order": "core.order",
    "explore": "widgets.explorer",
    "guard": "checks.guard",
    "layout": "core.layout",
    "load": "core.files",
    "local_shape_and_offset": "core.layout",
    "mend": "checks.checkpoints.mend",
    "museum": "checks.museum",
    "parse": "core.spec",
    "readings": "core.readings",
    "redistribute": "core.redistribute",
    "split": "core.split",
    "unshuffle": "core.unshuffle",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
