"""The browser's side of the widgets: one module per view, made of a shared part and its own."""

from functools import cache
from importlib.resources import files
from pathlib import Path

__all__ = ["STYLE", "script"]

HERE = Path(__file__).parent
STYLE = HERE / "explorer.css"


@cache
def script(name: str) -> str:
    """The module of a view: what all of them share, then what they share with pages, then its own."""
    scene = files("shardviz.picture").joinpath("scene.js").read_text("utf-8")
    parts, own = ((HERE / part).read_text("utf-8") for part in ("parts.js", name))
    return "\n".join((parts, scene, own))
