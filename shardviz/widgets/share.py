"""Taking it elsewhere: texts to copy, and files to save."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from traitlets import Bool, List, Unicode

from shardviz.core.errors import FileError, ShardvizError
from shardviz.picture import Picture, draw
from shardviz.widgets.answers import Answer
from shardviz.widgets.assets import STYLE, script
from shardviz.widgets.part import Part
from shardviz.widgets.snippets import FORMS, command, python, query, torch_script
from shardviz.widgets.state import ExplorerState

__all__ = ["Share"]

FILES = {
    "page.html": "story as a page",
    "story.gif": "story as GIF",
    "story.svg": "story as SVG",
    "story.png": "story as PNG",
    "layout.svg": "layout as SVG",
    "layout.png": "layout as PNG",
}
"""What can be saved, by the end of the file's name."""

FORBIDDEN = frozenset('/\\:*?"<>|')
"""What file names cannot have, here or on the machine of a visitor."""

MOST_BYTES = 200


class Share(Part):
    """Handles `{"do": "text", "as": …}` by sending that text back, and `{"do": "save", "as": …, "name": …}` by writing a file.

    Args:
        state: what is shared.

    Attributes:
        unfolded: whether it is unfolded.
        forms: the texts there are: a key and a label each.
        files: the files there are, likewise.
        name: the name of the files, without what follows it.
        saved: what became of the last file.
    """

    _esm = script("share.js")
    _css = STYLE

    unfolded = Bool(False).tag(sync=True)
    forms = List([list(one) for one in FORMS.items()]).tag(sync=True)
    files = List([list(one) for one in FILES.items()]).tag(sync=True)
    name = Unicode("shardviz").tag(sync=True)
    saved = Unicode().tag(sync=True)

    def __init__(self, state: ExplorerState) -> None:
        self._state = state
        self._answer: Answer | None = None
        self._layout: Picture | None = None
        super().__init__()

    def show(self, answer: Answer) -> None:
        """Share another answer."""
        self._answer = answer

    def draws(self, layout: Picture) -> None:
        """Save this picture as the layout."""
        self._layout = layout

    def text(self, form: str) -> str:
        """A text to copy; what cannot be had says why.

        Args:
            form: a key of `FORMS`.
        """
        choice = self._state.choice
        match form:
            case "line":
                return self._state.link()
            case "python":
                return python(choice)
            case "command":
                return command(choice)
            case "query":
                return query(self._state)
            case "torch":
                from shardviz.tensors.making import choose_maker  # imports torch

                return torch_script(choice, choice.question.made_by or choose_maker(choice.spec))
        return str(choice.spec)

    def save(self, kind: str, name: str) -> Path:
        """Write a file beside the notebook; one that is there already stays as it is.

        Raises:
            FileError: the name is none, the file is there already, or it cannot be written.
        """
        path = Path(f"{_plain(name)}-{kind}")
        if path.exists():
            raise FileError(f"{path} is there already, and was left as it is: choose another name")
        return self._picture(kind).save(path)

    def _picture(self, kind: str) -> Picture:
        assert self._answer is not None
        assert self._layout is not None
        return self._layout if kind.startswith("layout") else draw(self._answer.story)

    def act(self, message: dict[str, Any]) -> None:
        """Send a text, or save a file."""
        if self._answer is None:
            return
        try:
            match message:
                case {"do": "text", "as": form} if form in FORMS:
                    self.send({"do": "text", "text": self.text(form), "label": FORMS[form].capitalize()})
                case {"do": "save", "as": kind, "name": name} if kind in FILES:
                    self._keep(kind, name)
        except ShardvizError as error:
            self.saved = str(error)

    def _keep(self, kind: str, name: str) -> None:
        """Write the file here; or, where a person has no files here, let the browser have it."""
        if not in_voila():
            self.saved = f"Written to {self.save(kind, name).resolve()}"
            return
        file = f"{_plain(name)}-{kind}"
        self.send({"do": "download", "name": file}, buffers=[self._picture(kind).content(kind)])
        self.saved = f"Your browser saves {file}."


def in_voila() -> bool:
    """Whether the page is one of voila's, whose visitors do not see the files of the server."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila/")


def _plain(name: str) -> str:
    """A name without folders that every file system takes.

    Raises:
        FileError: it is none.
    """
    plain = name.strip()
    if not plain.isprintable() or set(plain) & FORBIDDEN or plain[:1] in ("", ".") or len(plain.encode()) > MOST_BYTES:
        raise FileError(f"{name[:MOST_BYTES]!r}: a file name without folders, such as shardviz, of at most {MOST_BYTES} bytes")
    return plain
