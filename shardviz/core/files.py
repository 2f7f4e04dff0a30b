"""Traces as JSON files: a versioned document, checked field by field when it is read. No pickle anywhere.

`load` reads recordings too; `recording_files` has the rest of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from shardviz.core import recording_files
from shardviz.core.errors import FileError, ShardvizError
from shardviz.core.recording import Recording
from shardviz.core.recording_lines import VERSION as RECORDING_VERSION
from shardviz.core.runs import Runs, length
from shardviz.core.spec import Spec, parse
from shardviz.core.trace import Buffer, Report, Source, Step, Trace

__all__ = ["load", "save", "to_json"]

VERSION = 1


@dataclass(frozen=True)
class _Story:
    """A trace as it stands in a file: its spec in the notation, the rest as it is."""

    spec: str
    source: Source
    method: str
    steps: tuple[Step, ...]
    reported: tuple[Report, ...] = ()
    torch: _Story | None = None
    end: str = ""
    target: str = ""
    used: tuple[Buffer, ...] = ()


@dataclass(frozen=True)
class _Document:
    shardviz: int
    trace: _Story


def save(trace: Trace, path: str | Path) -> Path:
    """Write a trace as JSON; see `Trace.save`."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(to_json(trace))
    except OSError as error:
        raise FileError(f"the trace cannot be written to {target}: {error.strerror}") from error
    return target


def load(path: str | Path) -> Trace | Recording:
    """Read what `Trace.save` or `Recording.save` wrote, or merge the directory that `python -m shardviz.record` left.

    Raises:
        FileError: it cannot be read, is no trace or recording, is cut short, or comes from a later version.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from shardviz.core.unshuffle import unshuffle
        >>> story = unshuffle("[5] on dp=2, tp=2: _S(0, 2), S(0)")
        >>> with TemporaryDirectory() as directory:
        ...     load(story.save(f"{directory}/story.json")) == story
        True
    """
    if not isinstance(path, str | Path):
        raise FileError(f"the path of a trace, a recording or a directory was expected; got {path!r}")
    source = Path(path)
    if source.is_dir():
        return recording_files.load_directory(source)
    try:
        if source.exists() and not source.is_file():
            raise FileError(f"{source} is no regular file")
        document = source.read_bytes()
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror}") from error
    try:
        return from_json(document)
    except FileError as error:
        raise FileError(f"{source}: {error}") from error


def to_json(trace: Trace) -> bytes:
    """The trace as a JSON document."""
    return msgspec.json.format(msgspec.json.encode(_Document(VERSION, _story(trace))), indent=1)


def from_json(document: bytes) -> Trace | Recording:
    """Read the JSON document of a trace or a recording.

    Raises:
        FileError: it is no JSON, neither of them, or of a later version.
    """
    try:
        keys = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
        version = keys.get("shardviz")
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileError(f"not a trace of shardviz, or cut short ({error})") from error
    if version is None or not bytes(version).isdigit() or len(bytes(version)) > 9:
        raise FileError('not a trace of shardviz: a trace is a JSON object with "shardviz" (a version) and "trace"')
    what, latest = ("recording", RECORDING_VERSION) if "recording" in keys else ("trace", VERSION)
    if int(bytes(version)) > latest:
        raise FileError(f"the {what} has version {int(bytes(version))}; this shardviz reads versions up to {latest}")
    if "recording" in keys:
        return recording_files.from_json(document)
    try:
        return _trace(msgspec.json.decode(document, type=_Document).trace)
    except (msgspec.DecodeError, RecursionError, ShardvizError) as error:
        raise FileError(f"the trace is not as it should be: {error}") from error


def _story(trace: Trace) -> _Story:
    torch = _story(trace.torch) if trace.torch else None
    target = str(trace.target) if trace.target else ""
    about = (str(trace.spec), trace.source, trace.method, trace.steps, trace.reported)
    return _Story(*about, torch, trace.end, target, trace.used)


def _trace(story: _Story) -> Trace:
    spec = parse(story.spec).with_made_by(story.source.made_by or None)
    if not story.steps:
        raise FileError("it has no steps")
    for step in story.steps:
        _check(step, spec)
    if story.used:
        _check_buffers("what is used", story.used, spec)
    torch = _trace(story.torch) if story.torch else None
    target = parse(story.target) if story.target else None
    if target is not None and (target.shape, target.mesh) != (spec.shape, spec.mesh):
        raise FileError(f"it leads from {spec} to {target}, which is another tensor")
    return Trace(spec, story.source, story.method, story.steps, story.reported, torch, story.end, target, story.used)


def _check(step: Step, spec: Spec) -> None:
    if step.kind == "collective" and len(step.bytes) != spec.mesh.size:
        raise FileError(f"step {step.name!r} has {len(step.bytes)} byte counts for {spec.mesh.size} ranks")
    _check_buffers(f"step {step.name!r}", step.buffers, spec)


def _check_buffers(what: str, buffers: tuple[Buffer, ...], spec: Spec) -> None:
    if len(buffers) != spec.mesh.size:
        raise FileError(f"{what} has {len(buffers)} buffers for {spec.mesh.size} ranks")
    for rank, buffer in zip(spec.mesh.ranks, buffers, strict=True):
        if not _can_be(buffer, spec):
            raise FileError(f"{what}: the runs of rank {rank} fill no buffer of shape {buffer.shape} of {spec}")


def _can_be(buffer: Buffer, spec: Spec) -> bool:
    """Whether a buffer's runs are slots of the spec's tensor, and as many as its shape says."""
    if any(size < 0 for size in buffer.shape):
        return False
    if buffer.cells is not None:
        return length(buffer.cells) == buffer.numel and _are_slots(buffer.cells, spec.numel)
    if len(buffer.axes) != spec.ndim or len(buffer.shape) != spec.ndim:
        return False
    sizes = tuple(map(length, buffer.axes))
    return (sizes == buffer.shape or not buffer.numel) and all(map(_are_slots, buffer.axes, spec.shape))


def _are_slots(runs: Runs, size: int) -> bool:
    return all(start < stop and (start >= 0 or stop in (0, -1)) and stop <= size for start, stop in runs)
