"""What the forward pass should see of a parameter: FSDP2 undoes its own cut, and leaves those of the model dimensions."""

from __future__ import annotations

from shardviz.core.layout import layout
from shardviz.core.placements import Replicate
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, start

__all__ = ["data_dims", "forward_buffers", "forward_spec"]


def data_dims(spec: Spec) -> int:
    """How many leading mesh dimensions belong to FSDP2: one that cuts, or two where a replicating one stands before it (HSDP).

    Example:
        >>> from shardviz.core.spec import parse
        >>> data_dims(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")), data_dims(parse("[9] on rep=2, dp=2: R, S(0)"))
        (1, 2)
    """
    return 2 if isinstance(spec.placements[0], Replicate) and spec.mesh.ndim > 1 else 1


def forward_spec(spec: Spec) -> Spec:
    """The spec of a parameter after FSDP2's `unshard()`: replicated over its own mesh dimensions, cut by the others as before.

    Args:
        spec: of the parameter as FSDP2 made it.

    Example:
        >>> from shardviz.core.spec import parse
        >>> print(forward_spec(parse("[9] on dp=4, tp=2: _S(0, 2), S(0)")))  # every rank with tp=0 sees 5 rows, the others 4
        [9] on dp=4, tp=2: R, S(0)
    """
    count = data_dims(spec)
    return Spec(spec.shape, spec.mesh, [*(Replicate() for _ in range(count)), *spec.placements[count:]])


def forward_buffers(spec: Spec) -> tuple[Buffer, ...]:
    """What each rank's forward pass should see, in the mesh's order.

    Args:
        spec: of the parameter as FSDP2 made it.

    Example:
        >>> [buffer.shape for buffer in forward_buffers(Spec((9,), {"dp": 2, "tp": 2}, "_S(0, 2), S(0)"))]
        [(5,), (4,), (5,), (4,)]
    """
    return start(layout(forward_spec(spec)))
