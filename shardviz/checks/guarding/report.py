"""What a guard says: what it found, with cures, or what its all-clear covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Covered", "Found", "Guarded"]

SHOWN = 20
"""The most parameters that a message names."""


@dataclass(frozen=True)
class Found:
    """What is wrong about one parameter.

    Attributes:
        name: its name.
        spec: how it is sharded, in the notation, as the lowest rank has it.
        words: what is wrong, with the ranks and their values.
        ranks: where.
        cures: what to do, in words, the smallest change first.
    """

    name: str
    spec: str
    words: str
    ranks: tuple[int, ...]
    cures: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All of it but the cures."""
        return f"{self.name} {self.spec}: {self.words}"


@dataclass(frozen=True)
class Covered:
    """What a guard looked at.

    Attributes:
        ranks: how many ranks took part.
        names: how many parameters were compared between them.
        partly: of these, how many are on some ranks alone and need not be on the others (stages of a pipeline).
        copied: of how many, parts that several ranks hold were compared by their contents.
        used: of how many, the forward pass was seen.
        corrected: whether torch's checkpoints were told what the ranks hold, so that its own report did not matter.
        gaps: what was not looked at, and why.
    """

    ranks: int
    names: int
    partly: int = 0
    copied: int = 0
    used: int = 0
    corrected: bool = False
    gaps: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """In words."""
        what = f"{self.names:,} parameter{'s' * (self.names != 1)} on {self.ranks:,} rank{'s' * (self.ranks != 1)}"
        if not self.names:
            return f"{what}: there was nothing to compare"
        other = "what corrected_offsets tells" if self.corrected else "torch"
        lines = [f"{what}: global shape, dtype, mesh, placements and local shape, compared between ranks and with {other}"]
        if self.partly:
            lines.append(f"{self.partly:,} of them on some ranks only, and on all of their mesh where they have one")
        if self.copied:
            lines.append(f"contents (checksums) of {self.copied:,} that several ranks hold a part of")
        if self.used:
            lines.append(f"what the forward pass uses of {self.used:,}, after FSDP2's unshard()")
        lines += [f"not looked at: {gap}" for gap in self.gaps]
        return "\n  ".join(lines)


@dataclass(frozen=True, repr=False)
class Guarded:
    """What a guard found. True when it found something; its items are sentences, one for each parameter.

    Attributes:
        torch: the release.
        findings: what is wrong.
        covered: what was looked at.
    """

    torch: str
    findings: tuple[Found, ...]
    covered: Covered

    @property
    def ok(self) -> bool:
        """Whether nothing was found; `covered` says in what."""
        return not self.findings

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[str]:
        return iter([one.sentence for one in self.findings])

    def __getitem__(self, place: int) -> str:
        return self.findings[place].sentence

    @property
    def text(self) -> str:
        """The findings with their cures, or what the all-clear covers."""
        if self.ok:
            return f"torch {self.torch}: nothing wrong was found\n  {self.covered.text}"
        count = len(self.findings)
        of = f"{count} of {self.covered.names} parameters"
        lines = [
            f"torch {self.torch}: {of} on {self.covered.ranks} ranks {'is' if count == 1 else 'are'} not what is believed of "
            f"{'it' if count == 1 else 'them'}; checkpoints of this model are not to be trusted:"
        ]
        lines += [f"  {one.sentence}" for one in self.findings[:SHOWN]]
        if count > SHOWN:
            lines.append(f"  and {count - SHOWN} more")
        alike: dict[tuple[str, ...], list[str]] = {}
        for one in self.findings:
            alike.setdefault(one.cures, []).append(one.name)
        for cures, names in alike.items():
            if cures:
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                lines.append(f"To cure {', '.join(names[:3])}{more}: {'; '.join(cures)}.")
        lines += [f"Not looked at: {gap}." for gap in self.covered.gaps]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "torch": self.torch,
            "ok": self.ok,
            "ranks": self.covered.ranks,
            "parameters": self.covered.names,
            "on_some_ranks_only": self.covered.partly,
            "contents_compared": self.covered.copied,
            "inside_corrected_offsets": self.covered.corrected,
            "forward_pass_seen": self.covered.used,
            "not_looked_at": list(self.covered.gaps),
            "findings": [
                {
                    "name": one.name,
                    "spec": one.spec,
                    "message": one.words,
                    "ranks": list(one.ranks),
                    "cures": list(one.cures),
                }
                for one in self.findings
            ],
        }
