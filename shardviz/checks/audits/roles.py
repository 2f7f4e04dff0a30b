"""What a mesh dimension does to a parameter, by the names that training frameworks give it; never by a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from shardviz.core.errors import SpecError

__all__ = ["Role", "roles_of"]


class Role(StrEnum):
    """What a mesh dimension does to a parameter."""

    FSDP = "fsdp"
    COPY = "copy"
    TP = "tp"
    EP = "ep"
    PP = "pp"

    @property
    def words(self) -> str:
        """What the role means."""
        return MEANINGS[self]


MEANINGS: Mapping[Role, str] = {
    Role.FSDP: "FSDP2 shards every parameter over it",
    Role.COPY: "it holds copies",
    Role.TP: "the model's own plan cuts over it",
    Role.EP: "it cuts experts alone",
    Role.PP: "its stages hold other layers, so it cuts nothing",
}

NAMES: Mapping[Role, str] = {
    Role.FSDP: "dp dp_shard fsdp shard data data_parallel dp_cp dp_shard_cp fsdp_cp cp context context_parallel "
    "dp_shard_mod_ep dp_shard_in_ep efsdp ep_shard edp",
    Role.COPY: "dp_replicate replicate rep ddp hsdp sp sequence sequence_parallel",
    Role.TP: "tp tensor tensor_parallel model model_parallel mp etp",
    Role.EP: "ep expert experts expert_parallel",
    Role.PP: "pp pipe pipeline pipeline_parallel stage stages",
}
"""torchtitan's, transformers', accelerate's, Automodel's and Megatron's names, and the long forms of them."""

_ROLES = {name.replace("_", ""): role for role, names in NAMES.items() for name in names.split()}
_WIDE = {"dp", "data", "dataparallel"}
"""Names that shard where they stand alone, and copy beside a dimension that says it shards (HSDP)."""
_CONTEXT = {"cp", "context", "contextparallel"}
_OF_EXPERTS = {"efsdp", "epshard", "edp", "dpshardmodep"}
"""FSDP2's dimensions of a mesh on which experts alone live."""


def roles_of(names: Sequence[str], stated: Mapping[str, str] | None = None) -> tuple[Role, ...]:
    """The role of each mesh dimension.

    Args:
        names: of the mesh dimensions, in any case, with or without underscores.
        stated: roles by name, before the usual ones.

    Raises:
        SpecError: a name that is not known, with the roles and how to state one.

    Example:
        >>> [str(role) for role in roles_of(["dp", "dp_shard", "TP"])]  # HSDP: dp_shard shards, so dp copies
        ['copy', 'fsdp', 'tp']
    """
    said = {name: _stated(name, role, names) for name, role in (stated or {}).items()}
    plain = [name.lower().replace("_", "") for name in names]
    shards = {one for one in plain if _ROLES.get(one) is Role.FSDP} - _WIDE - _CONTEXT
    roles = []
    for name, one in zip(names, plain, strict=True):
        role = said.get(name) or (Role.COPY if one in _WIDE and shards else _ROLES.get(one))
        if role is None:
            raise SpecError(
                f"the mesh dimension {name!r}: what it does to a parameter is not known. Known are "
                + "; ".join(f"{', '.join(NAMES[role].split()[:4])} ({role.words})" for role in Role)
                + f". State another's role as {name}=fsdp, copy, tp, ep or pp (--role {name}=tp, or roles={{{name!r}: 'tp'}})"
            )
        roles.append(role)
    return tuple(roles)


def of_experts_alone(names: Sequence[str]) -> bool:
    """Whether FSDP2's dimension is named as one on which experts alone live (torchtitan's `efsdp`, Automodel's `ep_shard`)."""
    return any(name.lower().replace("_", "") in _OF_EXPERTS for name in names)


def reading_of(names: Sequence[str], roles: Sequence[Role]) -> str:
    """How a mesh was read, in words.

    Example:
        >>> reading_of(["dp", "cp", "tp"], [Role.FSDP, Role.FSDP, Role.TP])
        "dp and cp: FSDP2 shards every parameter over them; tp: the model's own plan cuts over it"
    """
    parts = []
    for role in Role:
        mine = [name for name, one in zip(names, roles, strict=True) if one is role]
        if mine:
            words = role.words.replace("over it", "over them").replace("it holds", "they hold") if len(mine) > 1 else role.words
            parts.append(f"{' and '.join(mine)}: {words}")
    return "; ".join(parts)


def _stated(name: str, role: str, names: Sequence[str]) -> Role:
    if name not in names:
        raise SpecError(f"the role of {name!r} was stated, but the mesh has {', '.join(names)}")
    try:
        return Role(role)
    except ValueError:
        raise SpecError(f"the role {role!r} of {name!r} is none; right would be {', '.join(Role)}") from None
