"""The four answers to one question, each with what it parts from: predicted, reported, held, used."""

from __future__ import annotations

from collections.abc import Sequence

from shardviz.checks.audits.picture import predicted_reports
from shardviz.checks.audits.release import installed_release
from shardviz.core.compare import compare, report_difference
from shardviz.core.forward import forward_buffers
from shardviz.core.spec import Spec
from shardviz.core.trace import Buffer, Report, Trace, buffer_text, start
from shardviz.picture.answers import Told
from shardviz.widgets.answers import Answer

__all__ = ["answers_of", "missing"]


def answers_of(answer: Answer) -> tuple[Told, ...]:
    """The answers that are known; without a run, what torch would report is arithmetic too."""
    trace, predicted = answer.trace, answer.layout
    spec = trace.spec if trace else predicted.spec
    held = trace.held if trace else start(predicted)
    told = [Told("predicted", f"read as {predicted.reading}", start(predicted))]
    if trace is None:
        _, reports = predicted_reports(spec)
        source, against = f"by torch {installed_release().torch}, as arithmetic knows it", "predicted"
    else:
        reports, source, against = trace.reported, f"by torch {trace.source.torch}", "held"
    if reports:
        told.append(Told("reported", source, _boxes(reports, held), _misreported(spec, held, reports), against))
    if trace is None:
        return tuple(told)
    parts = compare(predicted, trace).differences
    told.append(Told("held", trace.source.text, held, tuple((one.rank, one.sentence) for one in parts), "predicted"))
    if trace.used:
        told.append(Told("used", "by the forward pass, after unshard()", trace.used, _misused(trace), "the unsharded layout"))
    return tuple(told)


def missing(answer: Answer) -> str:
    """A sentence for the answers that are not there."""
    if answer.trace is None:
        return "What the ranks hold, and what the forward pass uses, is known after a run on real ranks."
    if not answer.trace.used:
        return "No used: FSDP2 did not make this tensor, so there is no unshard() before a forward pass."
    return ""


def _boxes(reports: Sequence[Report], held: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Reports as buffers: a shape and an offset are one run per dimension."""
    found = []
    for report, buffer in zip(reports, held, strict=True):
        ends = zip(report.offset, report.shape, strict=True)
        axes = tuple(((first, first + size),) if size else () for first, size in ends)
        found.append(Buffer(() if report.error else axes, (0,) if report.error else report.shape, pending=buffer.pending))
    return tuple(found)


def _misreported(spec: Spec, held: Sequence[Buffer], reports: Sequence[Report]) -> tuple[tuple[int, str], ...]:
    said = [(report.rank, report_difference(spec.shape, b, report)) for b, report in zip(held, reports, strict=True)]
    return tuple((rank, words) for rank, words in said if words)


def _misused(trace: Trace) -> tuple[tuple[int, str], ...]:
    triples = zip(trace.ranks, forward_buffers(trace.spec), trace.used, strict=True)
    return tuple((rank, f"uses {buffer_text(got)}, not {buffer_text(want)}") for rank, want, got in triples if want != got)
