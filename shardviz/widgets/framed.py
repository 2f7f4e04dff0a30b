"""A picture's markup in a box that keeps its place on the page."""

from shardviz.picture import Picture

__all__ = ["framed"]

LEAST_SCALE = 0.7
"""How far a picture shrinks in a narrow window; beyond, its box scrolls."""

TALLEST = 760
"""The height in pixels beyond which a box scrolls; the style sheet has it too."""


def framed(picture: Picture, name: str) -> str:
    """A picture that is as wide as its box allows, and never larger than drawn.

    Args:
        picture: what to show.
        name: what it is, for those who scroll it by keyboard.
    """
    wide, high = round(picture.scene.width), round(picture.scene.height)
    reach = f' tabindex="0" role="group" aria-label="{name}"' if high > TALLEST else ""
    return (
        f'<div class="sv-pane"{reach}><div class="sv-picture" style="max-width:{wide}px;'
        f'min-width:{round(LEAST_SCALE * wide)}px;aspect-ratio:{wide}/{high}">{picture.markup(followed=True)}</div></div>'
    )
