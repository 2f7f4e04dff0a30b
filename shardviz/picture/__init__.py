"""Pictures of layouts and stories: facts in, drawings out. A `Picture` shows itself in a notebook and saves itself."""

from shardviz.picture.drawing import draw as draw
from shardviz.picture.drawing import draw_held as draw_held
from shardviz.picture.drawing import draw_layout as draw_layout
from shardviz.picture.drawing import draw_used as draw_used
from shardviz.picture.drawn import Table as Table
from shardviz.picture.pages import Section as Section
from shardviz.picture.pages import page as page
from shardviz.picture.picture import Picture as Picture

__all__ = ["Picture", "Section", "Table", "draw", "draw_held", "draw_layout", "draw_used", "page"]
