"""A story as a GIF for slides: one frame per step, its sentence below it."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from shardviz.picture.drawn import Frame
from shardviz.picture.figure import make_png
from shardviz.picture.scene import Scene, Text, scene
from shardviz.picture.scene_parts import EDGE
from shardviz.picture.theme import BODY, SMALL, wrap

__all__ = ["make_gif"]

READING_SECONDS = 2.5
LINE = 16.0


def make_gif(frames: Sequence[Frame], caption: str, dpi: float = 120) -> bytes:
    """The frames as an endless GIF; all have the size of the first.

    Args:
        frames: the steps of a story.
        caption: the line below every frame that says what is shown, and where it comes from.
        dpi: at 96 dots per inch a frame has the size of its scene in pixels.
    """
    lines = [wrap(frame.sentence, frame.scene.width - 2 * EDGE, BODY) for frame in frames]
    room = max(map(len, lines)) * LINE + LINE
    scenes = [_told(frame.scene, words, caption, room) for frame, words in zip(frames, lines, strict=True)]
    first, *rest = (Image.open(io.BytesIO(make_png(told, dpi))).convert("RGB") for told in scenes)
    out = io.BytesIO()
    milliseconds = int(READING_SECONDS * 1000)
    first.save(out, "GIF", save_all=True, append_images=rest, duration=milliseconds, loop=0, optimize=True)
    return out.getvalue()


def _told(drawn: Scene, words: Sequence[str], caption: str, room: float) -> Scene:
    """A scene with the sentence of its step and the caption below it."""
    text = [Text(EDGE, drawn.height + LINE * line, said, BODY) for line, said in enumerate(words)]
    text.append(Text(EDGE, drawn.height + room - LINE, caption, SMALL, "muted"))
    return scene(drawn.width, drawn.height + room + EDGE / 2, [*drawn.marks, *text])
