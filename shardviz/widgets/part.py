"""What the parts of the explorer share that handle messages of their own views."""

from __future__ import annotations

import traceback
from typing import Any

import anywidget
from traitlets import Unicode

from shardviz.core.errors import ShardvizError

__all__ = ["Part", "failure_text"]


class Part(anywidget.AnyWidget):
    """A view with buttons. What goes wrong behind one of them is told: the exceptions of widgets vanish in a log.

    Attributes:
        failure: what went wrong at the last message, or "".
    """

    failure = Unicode()

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self.on_msg(self._heard)

    def act(self, message: dict[str, Any]) -> None:
        """Do what a button asks for."""
        raise NotImplementedError

    def _heard(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        self.failure = ""
        try:
            self.act(message)
        except Exception as error:  # whatever it is, a person waits for an answer
            self.failure = failure_text(error)


def failure_text(error: Exception) -> str:
    """What a person is told: the message of an error that shardviz can explain, all about any other one."""
    return str(error) if isinstance(error, ShardvizError) else "".join(traceback.format_exception(error))
