"""The guard: one line inside a job that stops it before the first checkpoint goes wrong. It needs torch and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from shardviz.checks.audits.cures import cures_of
from shardviz.checks.audits.parameter import findings_of
from shardviz.checks.audits.release import installed_release
from shardviz.checks.checkpoints.offsets import correcting
from shardviz.checks.guarding.agreement import Agreement, Trouble, agreement
from shardviz.checks.guarding.claims import RELOAD, Claim, claims_of, tensors_of
from shardviz.checks.guarding.content import UNREAD, checksums, different_copies
from shardviz.checks.guarding.exchange import everyone_s
from shardviz.checks.guarding.report import Covered, Found, Guarded
from shardviz.checks.guarding.using import Managed, agreeing, managed, misplaced, reshard
from shardviz.core.errors import ShardvizError
from shardviz.core.spec import Spec

__all__ = ["guard"]


@torch.no_grad()
def guard(model: nn.Module | Mapping[str, Any], *, warn: bool = False) -> Guarded:
    """Compare what the ranks hold and use with each other and with what torch reports; call it before the first save.

    Every rank of the process group calls it at the same time, with its parameters, whichever they are (the stages of a
    pipeline have different ones), and not inside a forward or backward pass. Everybody tells everybody the global shape,
    dtype, mesh, placements and local shape of what it has under each name, and a checksum where several ranks hold the same
    part. Then FSDP2's modules are unsharded one at a time. Nothing is written to. Inside `corrected_offsets`, where the save
    will be, torch's own report does not matter, and everything else does.

    Args:
        model: a model, or a state dict: what is about to be saved, an optimizer's state too (whose forward pass there is
            not). Buffers of a model are not looked at.
        warn: warn, instead of raising.

    Returns:
        What is wrong, and what was looked at: true where something was found.

    Raises:
        SpecError: it is neither a model nor a mapping.
        ShardvizError: on every rank, where a parameter is wrong on any: a checkpoint would be refused or lose elements, or
            rows were shifted by loading.

    Example:
        >>> print(guard(nn.Linear(2, 2)))  # no DTensor in it, and no other rank to compare it with
        torch ...: nothing wrong was found
          2 parameters on 1 rank: global shape, dtype, mesh, placements and local shape, compared between ranks and with torch
    """
    found = _look(model)
    if found:
        if not warn:
            raise ShardvizError(found.text)
        warnings.warn(found.text, stacklevel=2)
    return found


def _look(what: nn.Module | Mapping[str, Any]) -> Guarded:
    rank = dist.get_rank() if dist.is_initialized() else 0
    model = what if isinstance(what, nn.Module) else None
    if model is not None:
        reshard(model)
    tensors = tensors_of(what)
    corrected = correcting()
    mine = claims_of(what, tensors, corrected)
    told: list[tuple[dict[str, Claim], Managed]] = everyone_s((mine, managed(model, mine) if model is not None else {}))
    claims, modules = [one for one, _ in told], [one for _, one in told]
    agreed = agreement(claims)
    troubles = {name: list(one.troubles) for name, one in agreed.items() if one.troubles}
    gaps = []
    if model is not None and (count := len(list(model.buffers()))):
        gaps.append(f"{count} buffer{'s' * (count != 1)}")

    copied = {name for name, one in agreed.items() if one.copies}
    if copied:
        sums = everyone_s(checksums(tensors, agreed, rank))
        for name, trouble in different_copies(tensors, agreed, sums, rank).items():
            troubles.setdefault(name, []).append(trouble)
        unread = {name for one in sums for name, digest in one.items() if digest == UNREAD}
        copied -= unread
        if unread:
            gaps.append(f"the contents of {len(unread)} parameters, which cannot be read (on the meta device?)")

    seen: set[str] = set()
    if any(modules):
        unsharded = agreeing(modules, claims, set(troubles))
        everywhere = {name for one in modules for names in one.values() for name in names}
        seen = {name for r, prefixes in unsharded.items() for prefix in prefixes for name in modules[r][prefix]}
        misused = everyone_s(misplaced(model, unsharded.get(rank, ()), modules[rank], corrected) if model is not None else {})
        for name in agreed:
            ranks = [r for r, one in enumerate(misused) if name in one]
            if ranks:
                others = f" (and {len(ranks) - 1} more rank{'s' * (len(ranks) > 2)})" if len(ranks) > 1 else ""
                words = f"rank {ranks[0]} {misused[ranks[0]][name]}{others}"
                troubles.setdefault(name, []).append(Trouble(words, tuple(ranks)))
        if everywhere - seen:
            gaps.append(f"the forward pass of {len(everywhere - seen)} parameters, beside which something is wrong")

    found = tuple(_found(name, agreed[name], troubles[name]) for name in agreed if name in troubles)
    partly = sum(bool(one.elsewhere) for one in agreed.values())
    covered = Covered(len(told), len(agreed), partly, len(copied), len(seen), corrected, tuple(gaps))
    return Guarded(torch.__version__.partition("+")[0], found, covered)


def _found(name: str, agreed: Agreement, troubles: list[Trouble]) -> Found:
    # What has another cure of its own is no fault of the arithmetic that an audit knows.
    asked = agreed.spec if any(trouble.cure in ("", RELOAD) for trouble in troubles) else None
    kinds, cures = _audited(asked, asked.made_by) if asked else ((), ())
    words = "; ".join(trouble.words for trouble in troubles)
    follows = f"; what follows: {', '.join(kinds)}" if kinds else ""
    own = [trouble.cure for trouble in troubles if trouble.cure]
    ranks = sorted({rank for trouble in troubles for rank in trouble.ranks})
    return Found(name, agreed.text, words + follows, tuple(ranks), tuple(dict.fromkeys([*own, *cures])))


@lru_cache(maxsize=4096)
def _audited(spec: Spec, _made_by: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The errors that an audit finds in a spec, and its cures."""
    reports = installed_release().reports
    kinds = dict.fromkeys(one.kind for one in findings_of(spec, reports) if one.severity == "error")
    return tuple(kinds), cures_of(spec, reports, frozenset(kinds)) if kinds else ()
