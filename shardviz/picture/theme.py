"""Colours, sizes of text and spacing of every picture; text is measured here, so that a scene needs no drawing library."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

Tone: TypeAlias = Literal["ink", "muted", "faint", "rule", "surface", "panel", "lit", "red"]
"""What a mark is for; a theme says which colour that is. `red` is for disagreement alone."""

Role: TypeAlias = str
"""A colour by its use: a tone, `hue3` (of a rank's data), `tint3` (its thinned face), or `on3` (text on it)."""

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#5b3a8c", "#f0e442", "#5a3a1e")
"""One hue per rank that held an element first: Okabe and Ito's, less the red and the black, plus a violet and a brown.

Every two of them, and each of them and the reserved red, stay apart under the three common colour deficiencies.
"""

TITLE, HEADING, BODY, LABEL, SMALL = 17.0, 12.5, 11.0, 11.0, 9.5
"""Sizes of text, in pixels of 1/96 inch, as are all lengths of a scene."""


TONES: tuple[Tone, ...] = get_args(Tone)

ROLES: tuple[Role, ...] = (*TONES, *(f"{use}{hue}" for use in ("hue", "tint", "on") for hue in range(len(HUES))))


@dataclass(frozen=True)
class Theme:
    """One colour per tone, and how strongly a hue tints the face of an addend."""

    ink: str
    muted: str
    faint: str
    rule: str
    surface: str
    panel: str
    lit: str
    red: str
    tint: float

    def color(self, role: Role) -> str:
        """The colour of a role."""
        if role in TONES:
            value: str = getattr(self, role)
            return value
        use, hue = role[:-1], int(role[-1])
        return HUES[hue] if use == "hue" else self.tinted(hue) if use == "tint" else text_on(HUES[hue])

    def tinted(self, hue: int) -> str:
        """A hue thinned by the surface: the face of an addend, which is not yet the value."""
        return _mixed(HUES[hue], self.surface, self.tint)


LIGHT = Theme("#1f2733", "#5d6878", "#8a94a3", "#dfe3e9", "#ffffff", "#f5f7f9", "#d6dee8", "#d01c2a", 0.22)
DARK = Theme("#e8ecf2", "#a3aebd", "#7b8797", "#333c48", "#12161c", "#1a2028", "#3a4656", "#ff6b73", 0.35)


class AdaptiveTheme(Theme):
    """Colours that a page around the picture may set, as CSS variables; the light ones where it does not."""

    def tinted(self, hue: int) -> str:
        """A hue thinned by the surface, whatever that is."""
        return f"color-mix(in srgb, {HUES[hue]} {self.tint:.0%}, {self.surface})"


def _variable(tone: Tone) -> str:
    return f"var(--shardviz-{tone}, {LIGHT.color(tone)})"


ADAPTIVE = AdaptiveTheme(
    ink=_variable("ink"),
    muted=_variable("muted"),
    faint=_variable("faint"),
    rule=_variable("rule"),
    surface=_variable("surface"),
    panel=_variable("panel"),
    lit=_variable("lit"),
    red=_variable("red"),
    tint=0.28,
)

DARK_NOTEBOOK = (
    "body:is([data-jp-theme-light=false],.theme-dark,.vscode-dark){"
    + ";".join(f"--shardviz-{tone}:{DARK.color(tone)}" for tone in TONES)
    + "}"
)
"""A style that sets the dark colours where JupyterLab, voila or VS Code say that they are dark."""


@cache
def text_on(color: str) -> str:
    """Dark or white, whichever stands out more on a colour.

    Example:
        >>> text_on("#0072b2"), text_on("#f0e442")
        ('#ffffff', '#1f2733')
    """
    return max(("#ffffff", LIGHT.ink), key=lambda text: contrast(text, color))


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG 2 defines it: 1 for equal ones, 21 for black on white."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Width of text in DejaVu Sans, the widest of the fonts that pictures are shown in, so that no other one overflows."""
    advances = _BOLD if bold else _REGULAR
    return sum(advances[ord(c) - 32] if 32 <= ord(c) < 127 else 84 for c in text) * size / 100


def clip(text: str, width: float, size: float, bold: bool = False) -> str:
    """Text cut to a width, its end replaced by an ellipsis."""
    if text_width(text, size, bold) <= width:
        return text
    kept = text[: max(1, int(width / text_width("i", size, bold)))]
    while len(kept) > 1 and text_width(kept + "…", size, bold) > width:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def wrap(text: str, width: float, size: float, most: int = 99) -> tuple[str, ...]:
    """Text broken into lines of a width, at most `most` of them."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(clip(word, width, size))
    if len(lines) > most:
        lines = [*lines[: most - 1], clip(" ".join(lines[most - 1 :]), width, size)]
    return tuple(lines)


def _luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _rgb(color))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _mixed(color: str, ground: str, share: float) -> str:
    mixed = (round(share * c + (1 - share) * g) for c, g in zip(_rgb(color), _rgb(ground), strict=True))
    return "#" + "".join(f"{v:02x}" for v in mixed)


# Advance widths of the characters 32 to 126 in hundredths of the size, read from DejaVu Sans and DejaVu Sans Bold.
# fmt: off
_REGULAR = (
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34,
    84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73, 68, 99,
    69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52,
    39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
)
_BOLD = (
    35, 46, 52, 84, 70, 100, 87, 31, 46, 46, 52, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40,
    84, 84, 84, 58, 100, 77, 76, 73, 83, 68, 68, 82, 84, 37, 37, 77, 64, 100, 84, 85, 73, 85, 77, 72, 68, 81, 77, 110,
    77, 72, 73, 46, 37, 46, 84, 50, 50, 67, 72, 59, 72, 68, 44, 72, 71, 34, 34, 67, 34, 104, 71, 69, 72, 72, 49, 60,
    48, 71, 65, 92, 65, 65, 58, 71, 37, 71, 84,
)
# fmt: on
