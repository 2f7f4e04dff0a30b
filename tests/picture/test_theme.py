"""Colours that everybody can tell apart, and text that is as wide as it is measured."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from shardviz.picture.theme import DARK, HUES, LIGHT, clip, contrast, text_on, text_width, wrap

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
}


def oklab(color: str, vision: str) -> np.ndarray:
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(VISION[vision] @ linear, 0, 1)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.793617785, -0.0040720468],
            [1.9779984951, -2.428592205, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.808675766],
        ]
    )
    return lab @ np.cbrt(cones @ seen)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("red", [LIGHT.red])
def test_hues_and_red_stay_apart(vision: str, red: str) -> None:
    """A distance of 0.02 in OKLab is just noticeable; all pairs keep more than three times that."""
    for one, other in combinations((*HUES, red), 2):
        assert np.linalg.norm(oklab(one, vision) - oklab(other, vision)) > 0.07, (one, other)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_is_readable(theme) -> None:
    for hue, color in enumerate(HUES):
        assert contrast(text_on(color), color) >= 4.0
        assert contrast(theme.ink, theme.tinted(hue)) >= 4.5
    for tone in ("ink", "muted", "red"):
        assert contrast(theme.color(tone), theme.surface) >= 4.5
        assert contrast(theme.color(tone), theme.panel) >= 4.5


@pytest.mark.parametrize("bold", [False, True])
def test_text_is_as_wide_as_measured(bold: bool) -> None:
    text = "rank 12: [50257] on dp=2, tp=4: _S(0, 4), S(0)"
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    drawn = TextPath((0, 0), text, size=11, prop=font).get_extents().width
    assert text_width(text, 11, bold) == pytest.approx(drawn, rel=0.02)


def test_clip_and_wrap_keep_to_their_width() -> None:
    text = "The 2 ranks of each tp group exchange their buffers; each joins them in the order of the coordinates."
    assert text_width(clip(text, 120, 11), 11) <= 120
    assert clip("short", 120, 11) == "short"
    lines = wrap(text, 150, 9.5)
    assert " ".join(lines) == text
    assert max(text_width(line, 9.5) for line in lines) <= 150
    assert wrap(text, 150, 9.5, 2)[-1].endswith("…")
