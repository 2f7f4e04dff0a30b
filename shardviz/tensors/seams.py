"""Where the recorder touches torch, and every private name of torch that it knows; the rest of it uses only what is here.

Every communication of torch passes the dispatcher as one of a few operators, whoever asked for it: the program, DTensor, FSDP2,
the C++ of DDP, a compiled graph. A kernel for the key BackendSelect stands below fake tensors, modes and autograd, so it sees
what is really done and nothing else, and no Python function of torch is replaced on the way there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
import torch.distributed as dist

__all__ = [
    "BACKWARD",
    "COLLECTIVES",
    "FUNCTIONAL",
    "GENERATED",
    "ONE_SIDED",
    "PADS",
    "REASONS",
    "UNITS",
    "bare_path",
    "future",
    "group_of",
    "intercept",
    "is_real",
    "module_call",
    "operators",
    "padding",
    "parameters",
    "reduction",
    "scripted_work",
    "source_rank",
    "storage",
    "unit_path",
    "unobserved",
]

COLLECTIVES: Mapping[str, str] = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "barrier": "barrier",
    "broadcast_": "broadcast",
    "gather_": "gather",
    "monitored_barrier_": "barrier",
    "recv_": "recv",
    "recv_any_source_": "recv",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "scatter_": "scatter",
    "send": "send",
}
"""The operators of process groups (namespace c10d), and the communication that each is."""

FUNCTIONAL = ("_c10d_functional", "wait_tensor")
"""The namespace of the functional operators, which call those of process groups, and the one that waits for their results."""

ONE_SIDED = "symm_mem"
"""The namespace of operators that move data between ranks without a process group."""

_REDUCTIONS = {int(value): name.lower() for name, value in dist.ReduceOp.RedOpType.__members__.items()}  # type: ignore[call-overload]


def future() -> type:
    """The class of what `Work.get_future()` returns."""
    found: type = torch._C.Future
    return found


def operators() -> Iterator[tuple[str, str]]:
    """Namespace and name of every operator that communicates, as far as the installed torch's namespaces tell."""
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        if namespace in ("c10d", FUNCTIONAL[0], ONE_SIDED) and "." not in name:
            yield namespace, name


def parameters(namespace: str, name: str) -> tuple[str, ...]:
    """The names of an operator's parameters."""
    return tuple(one.name for one in torch._C._get_schema(f"{namespace}::{name}", "").arguments)


def intercept(kernels: Mapping[tuple[str, str], Callable[..., Any]]) -> Callable[[], None]:
    """Have calls of operators go through kernels of ours, wherever they come from.

    Args:
        kernels: by namespace and name; each takes a function without arguments, which runs the operator and returns what it
            returns, and the operator's arguments. It must call the function exactly once.

    Returns:
        What puts everything back.
    """
    libraries = {namespace: torch.library.Library(namespace, "IMPL") for namespace, _ in kernels}
    for (namespace, name), kernel in kernels.items():
        operator = getattr(getattr(torch.ops, namespace), name).default
        run = operator._handle.redispatch_boxed
        libraries[namespace].impl(name, _passing(run, kernel), "BackendSelect", with_keyset=True)

    def undo() -> None:
        for library in libraries.values():
            library._destroy()

    return undo


def _passing(run: Callable[..., Any], kernel: Callable[..., Any]) -> Callable[..., Any]:
    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)

    def passing(keys: Any, *args: Any, **kwargs: Any) -> Any:
        return kernel(run, keys & after, args, kwargs)

    return passing


def is_real(tensor: Any) -> bool:
    """Whether a tensor has elements: a compiler runs operators on tensors without any."""
    return not tensor.is_meta and type(tensor).__name__ not in ("FakeTensor", "FunctionalTensor")


def group_of(scripted: Any) -> Any:
    """The process group that an operator was given."""
    return dist.ProcessGroup.unbox(scripted)


def scripted_work(result: Any) -> Any:
    """The work among what an operator of a process group returned; None where there is none."""
    last = result[-1] if isinstance(result, tuple) and result else result
    return dist.Work.unbox(last) if isinstance(last, torch.ScriptObject) else None


def reduction(scripted: Any) -> str:
    """The name of the reduction that an operator was given."""
    number = int(scripted.op())
    return _REDUCTIONS.get(number, f"reduction {number}")


def storage(tensor: torch.Tensor) -> int:
    """What tells a tensor's memory apart from any other's, as long as it lives."""
    return int(tensor.untyped_storage()._cdata)


@contextmanager
def unobserved() -> Iterator[None]:
    """A block whose operations no mode of the program sees, and no gradient follows."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


def source_rank(work: Any) -> int:
    """The rank of the group from which a receive without a source got its message."""
    return int(work._source_rank())


# Why: functions of torch that tell, when they are on the stack.


def _redistribution(frame: FrameType) -> str:
    try:
        specs = (frame.f_locals["current_spec"], frame.f_locals["target_spec"])
        return "redistribute " + " -> ".join(", ".join(map(str, spec.placements)) for spec in specs)
    except (KeyError, AttributeError):  # another torch names them differently
        return "redistribute"


def _schedule(frame: FrameType) -> str:
    return f"pipeline schedule {type(frame.f_locals.get('self')).__name__}"


REASONS: Mapping[str, Callable[[FrameType], str]] = {
    "redistribute_local_tensor": _redistribution,
    "foreach_all_gather": lambda _: "FSDP2 gathers parameters",
    "foreach_reduce": lambda _: "FSDP2 reduces gradients",
    "distribute_tensor": lambda _: "distribute_tensor",
    "_step_microbatches": _schedule,
    "batch_isend_irecv": lambda _: "batch_isend_irecv",
    "send_object_list": lambda _: "send_object_list",
    "recv_object_list": lambda _: "recv_object_list",
    "_sync_module_states": lambda _: "DDP or FSDP1 broadcasts the module's state",
    "_verify_param_shape_across_processes": lambda _: "DDP compares the parameters' shapes",
}
"""Functions of torch that tell why it communicates, when they are on the stack."""

BACKWARD = "_engine_run_backward"
"""The function of torch that runs a backward pass."""

GENERATED = ("<eval_with_key>", "<frozen")
"""How the file names of code begin that torch or Python wrote itself."""

# Who: modules.

_WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


def module_call() -> CodeType:
    """The code that runs whenever a module is called."""
    return torch.nn.Module._call_impl.__code__


def bare_path(path: str) -> str:
    """A module's path without the wrappers that torch put around it."""
    for wrapper in _WRAPPERS:
        path = f"{path}.".replace(wrapper, "").rstrip(".")
    return path


def unit_path(frame: FrameType) -> str:
    """The path of the module whose parameters FSDP2 handles in a frame of its own; "" in any other."""
    return str(getattr(frame.f_locals.get("self"), "_module_fqn", None) or "")


UNITS = "FSDPParamGroup."
"""How the qualified names of the methods of FSDP2's groups of parameters begin."""

# Padding: how many of the bytes that a rank sends to each member of its group are none of its data's.


def _of_gather(frame: FrameType, members: int) -> tuple[int, ...]:
    found = frame.f_locals
    dim, size = found["self"].dim, int(found["current_logical_shape"][found["self"].dim])
    tensor = found["local_tensor"]  # padded by now
    real = _chunk(size, members, found["mesh"].get_local_rank(found["mesh_dim"]))
    return (_rows(tensor, dim) * max(0, tensor.size(dim) - real),) * members


def _of_reduce(frame: FrameType, members: int) -> tuple[int, ...]:
    found = frame.f_locals
    if not found["is_padded"]:
        return (0,) * members
    return tuple(_rows(found["tensor"], found["self"].dim) * int(pad) for pad in found["pad_sizes"])


def _of_parameters(frame: FrameType, members: int) -> tuple[int, ...]:
    found = frame.f_locals
    padding = sum(p.padded_sharded_param_size.numel() - p.sharded_size.numel() for p in found["fsdp_params"])
    held = sum(p.padded_sharded_param_size.numel() for p in found["fsdp_params"])
    sent = found["all_gather_input"]
    return (padding * sent.element_size(),) * members if held == sent.numel() else ()  # an extension sends something else


def _of_gradients(frame: FrameType, members: int) -> tuple[int, ...]:
    found = frame.f_locals
    itemsize = found["reduce_scatter_input"].element_size()
    padding = [0] * members
    for parameter, padded in zip(found["fsdp_params"], found["padded_unsharded_sizes"], strict=True):
        rows, width = padded[0], padded[1:].numel() * itemsize
        # Along another dimension FSDP2 demands even shards.
        real = int(parameter._orig_size[0]) if parameter.fsdp_placement.dim == 0 else rows
        for member in range(members):
            padding[member] += width * (rows // members - _chunk(real, members, member))
    return tuple(padding)


def _chunk(size: int, members: int, member: int) -> int:
    """How many of `size` rows `torch.chunk` gives to a member."""
    full = -(-size // members)
    return max(0, min(full, size - member * full))


def _rows(tensor: torch.Tensor, dim: int) -> int:
    """Bytes of one row along a dimension."""
    return tensor.element_size() * (tensor.numel() // tensor.size(dim) if tensor.size(dim) else 0)


_PADDING: Mapping[str, Callable[[FrameType, int], tuple[int, ...]]] = {
    "_to_replicate_tensor": _of_gather,
    "_reduce_shard_tensor": _of_reduce,
    "foreach_all_gather": _of_parameters,
    "foreach_reduce": _of_gradients,
}
PADS = frozenset(_PADDING)
"""Functions of torch that pad what they send."""


def padding(frame: FrameType, members: int) -> tuple[int, ...]:
    """Bytes of padding that a rank sends to each member of its group, from a frame of one of `PADS`; () where unknown."""
    try:
        return _PADDING[frame.f_code.co_name](frame, members)
    except (KeyError, AttributeError, TypeError, IndexError, ValueError, RuntimeError):  # another torch names them differently
        return ()
