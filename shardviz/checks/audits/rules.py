"""Tensor parallelism by name, where nothing is known but names and shapes; what fits no rule is not guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from shardviz.checks.audits.mesh import Grid
from shardviz.checks.audits.roles import Role
from shardviz.core.errors import SpecError
from shardviz.core.notation import read_placements
from shardviz.core.spec import Spec

__all__ = ["RULES", "placed_by_rules"]

RULES: Mapping[str, str] = {
    "*embed_tokens.weight": "S(0)",
    "*tok_embeddings.weight": "S(0)",
    "*word_embeddings.weight": "S(0)",
    "*lm_head.*": "S(0)",
    "output.weight": "S(0)",
    "*.[qkv]_proj.*": "S(0)",
    "*.w[qkv].*": "S(0)",
    "*.gate_proj.*": "S(0)",
    "*.up_proj.*": "S(0)",
    "*.feed_forward.w[13].*": "S(0)",
    "*.o_proj.weight": "S(1)",
    "*.wo.weight": "S(1)",
    "*.down_proj.weight": "S(1)",
    "*.feed_forward.w2.weight": "S(1)",
    "*.o_proj.bias": "R",
    "*.wo.bias": "R",
    "*.down_proj.bias": "R",
    "*.feed_forward.w2.bias": "R",
    "*norm.weight": "R",
    "*norm.bias": "R",
    "*layernorm.*": "R",
}
"""Tensor parallelism as usual, by the names of Hugging Face's, Meta's and torchtitan's decoders: the first that fits."""

EXPERTS = "*expert*"
"""Experts are packed and dealt out in ways that names do not tell: no usual rule is for them."""


def placed_by_rules(
    shapes: Mapping[str, Sequence[int]], grid: Grid, rules: Mapping[str, str]
) -> tuple[list[tuple[str, Spec]], tuple[str, ...]]:
    """Each parameter with its spec on a mesh, and the names of those that no rule fits.

    Raises:
        SpecError: a rule cuts a tensor dimension that a parameter does not have, or has no parameter.
    """
    placed, unknown, used = [], [], set()
    for name, shape in shapes.items():
        pattern = next((one for one in rules if fnmatchcase(name, one)), None)
        if pattern is not None:
            used.add(pattern)
            rule = rules[pattern]
        elif not grid.model or not shape:
            pattern, rule = "*", "R"
        else:
            pattern = None if fnmatchcase(name, EXPERTS) else next((one for one in RULES if fnmatchcase(name, one)), None)
            if pattern is None:
                unknown.append(name)
                continue
            rule = RULES[pattern]
        try:
            placed.append((name, grid.spec(shape, for_model(rule, grid))))
        except SpecError as error:
            raise SpecError(f"{name} {list(shape)} by the rule {pattern}={rule}: {error}") from error
    check_used(rules, used, shapes)
    return placed, tuple(unknown)


def for_model(rule: str, grid: Grid) -> str:
    """A rule of one placement is tp's, and every other dimension of the model replicates; one of as many is each one's."""
    given = read_placements(rule)
    if len(given) == len(grid.model):
        return rule
    if len(given) != 1:
        raise SpecError(f"{len(given)} placements, and the model's part of the mesh is {', '.join(grid.model) or 'nothing'}")
    return ", ".join(rule if role is Role.TP else "R" for role in grid.roles[grid.data :])


def check_used(rules: Mapping[str, str], used: set[str], names: Mapping[str, object]) -> None:
    """A rule that fits nothing is a slip of the pen.

    Raises:
        SpecError: with some of the names that there are.
    """
    if idle := [one for one in rules if one not in used]:
        raise SpecError(f"the rule {idle[0]}={rules[idle[0]]} fits no parameter; there are {', '.join(list(names)[:4])}, …")
