"""Read the picture: which rank holds an element, who padded, who is empty."""

import shardviz as sv
from shardviz.core.runs import is_padding


def read_the_picture(given):
    """By eye it is quicker; this reads the same buffers that the picture shows."""
    story = sv.unshuffle(given["spec"])
    padded = story.steps[1].buffers
    return {
        "holder": sv.layout(given["spec"]).owners((given["element"],))[0].rank,
        "padded": [rank for rank, buffer in enumerate(padded) if any(map(is_padding, buffer.axes[0]))],
        "empty": [rank for rank, buffer in enumerate(story.held) if buffer.numel == 0],
    }
