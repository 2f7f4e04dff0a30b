"""Questions to begin with: a few classics, the museum's cases, and the parameters of a model of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardviz.checks.audits.parameter import Parameter
from shardviz.checks.museum import cards
from shardviz.core.errors import SpecError
from shardviz.core.spec import Spec, parse

__all__ = ["CLASSICS", "Example", "examples", "grouped"]

CLASSICS: Mapping[str, str] = {
    "Five elements, FSDP2 over TP": "[5] on dp=2, tp=2: _S(0, 2), S(0)",
    "Nine elements: the report is wrong": "[9] on dp=4, tp=2: _S(0, 2), S(0)",
    "A matrix cut both ways": "[4, 6] on dp=2, tp=2: S(0), S(1)",
    "Fewer rows than ranks": "[3] on dp=4: S(0)",
    "HSDP: replicas of shards": "[8] on replicas=2, dp=2: R, S(0)",
    "A sum that is still pending": "[6] on dp=2, tp=2: R, P(sum)",
    "Three nested cuts": "[9] on a=2, b=2, c=2: _S(0, 4), _S(0, 2), S(0)",
    "GPT-2's vocabulary": "[50257] on dp=4, tp=2: _S(0, 2), S(0)",
}
MOST_PARAMETERS = 300


@dataclass(frozen=True)
class Example:
    """A question with a name, in a group; `key` tells it apart from all others."""

    group: str
    label: str
    spec: Spec

    @property
    def key(self) -> str:
        """What the browser sends back."""
        return f"{self.group}: {self.label}"


def examples(parameters: Iterable[Parameter] = ()) -> tuple[Example, ...]:
    """All of them; the parameters of a model come first, those with errors before the others.

    Example:
        >>> [one.label for one in examples()][:2]
        ['Five elements, FSDP2 over TP', 'Nine elements: the report is wrong']
    """
    own = sorted(parameters, key=lambda one: -len(one.errors))[:MOST_PARAMETERS]
    found = [Example("Your model", _marked(one), one.spec) for one in own]
    found += [Example("Classics", label, parse(text)) for label, text in CLASSICS.items()]
    for card in cards():
        try:
            found.append(Example("The museum", card.id.replace("-", " "), parse(card.spec)))
        except SpecError:  # a card may be about something that is no tensor of one spec
            continue
    return tuple(found)


def grouped(found: Iterable[Example]) -> list[list[object]]:
    """The same by group, for a list to choose from: a key and a label each."""
    groups: dict[str, list[list[str]]] = {}
    for one in found:
        groups.setdefault(one.group, []).append([one.key, one.label])
    return [[group, options] for group, options in groups.items()]


def _marked(one: Parameter) -> str:
    count = len(one.errors)
    name = one.name or str(one.spec)
    return f"✗ {name}: {count} error{'s' * (count != 1)}" if count else name
