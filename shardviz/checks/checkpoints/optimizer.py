"""Which entries of a checkpoint are an optimizer's state, and of which parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from shardviz.checks.checkpoints.datafiles import shown
from shardviz.checks.checkpoints.facts import StoredTensor

__all__ = ["is_optimizer_state", "misshapen"]

_PLACES = {"optim", "optimizer", "optimizers", "optim_state", "optimizer_state", "optim_state_dict", "optimizer_state_dict"}
"""What the part of a state dict that holds optimizers is mostly called."""

_ALIKE = {
    *("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "grad_avg", "acc_delta", "exp_inf", "sum"),
    *("prev", "step_size", "ax"),
}
"""State of torch's optimizers that has one number per element of its parameter."""

_COUNTERS = {"step", "mu", "eta", "mu_product"}


def is_optimizer_state(name: str) -> bool:
    """Whether an entry is an optimizer's, by its name.

    Example:
        >>> [is_optimizer_state(name) for name in ("optim.state.w.step", "state.w.exp_avg", "model.w", "model.state.w")]
        [True, True, False, False]
    """
    *place, last = name.split(".")
    return bool(_PLACES.intersection(place)) or (last in _ALIKE | _COUNTERS and "state" in place)


def misshapen(tensors: Sequence[StoredTensor]) -> Iterator[str]:
    """What to say of every state that has one number per element of its parameter, and another shape.

    A state whose parameter cannot be told, since none or several of other shapes have its name, is passed over.
    """
    states = [tensor for tensor in tensors if tensor.name.rpartition(".")[2] in _ALIKE and "." in tensor.name]
    if not states:
        return
    of_states = {id(state) for state in states}
    known = _by_ending(tensor for tensor in tensors if id(tensor) not in of_states and not is_optimizer_state(tensor.name))
    for state in states:
        path = state.name.split(".")[:-1]
        begin = len(path) - path[::-1].index("state") if "state" in path else 0
        if len(path) == begin + 1 and path[begin].isdecimal():
            continue  # `Optimizer.state_dict` counts its parameters, and does not name them
        owners = _owners(known, tuple(path[begin:]))
        if owners and all(owner.shape != state.shape for owner in owners):
            parameter = owners[0]
            yield (
                f"{shown(state.name)} [{_text(state.shape)}] has not the shape of its parameter {shown(parameter.name)} "
                f"[{_text(parameter.shape)}]"
            )


def _by_ending(parameters: Iterable[StoredTensor]) -> dict[tuple[str, ...], list[StoredTensor]]:
    """The parameters by every way in which their names can end, whole parts each."""
    found: dict[tuple[str, ...], list[StoredTensor]] = defaultdict(list)
    for parameter in parameters:
        path = tuple(parameter.name.split("."))
        for begin in range(len(path)):
            found[path[begin:]].append(parameter)
    return found


def _owners(known: dict[tuple[str, ...], list[StoredTensor]], path: tuple[str, ...]) -> list[StoredTensor]:
    """The parameters that a state can be of: whose name ends with its path after the fewest parts, or is how its path ends."""
    ending = known.get(path, [])
    if ending:
        fewest = min(parameter.name.count(".") for parameter in ending)
        return [parameter for parameter in ending if parameter.name.count(".") == fewest]
    for begin in range(1, len(path)):
        named = [p for p in known.get(path[begin:], ()) if p.name == ".".join(path[begin:])]
        if named:
            return named
    return []


def _text(shape: Sequence[int]) -> str:
    return ", ".join(map(str, shape))
