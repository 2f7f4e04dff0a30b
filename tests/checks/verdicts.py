"""What the audit says of a small model of transformers, step by step, and what really happened: for the proof and its table."""

from shardviz.checks.audits.release import installed_release
from shardviz.checks.audits.report import examine
from shardviz.checks.audits.stops import Known, stops
from shardviz.core.mesh import Mesh
from shardviz.core.spec import Spec

FAILS = {
    "load": {"pretrained-refused"},
    "infer": {"forward-refused"},
    "forward": {"forward-refused"},
    "backward": {"train-refused"},
    "save": {"checkpoint-refused"},
    "again": {"checkpoint-loses-elements"},
    "save_own": set(),
    "again_own": set(),
    "gather": {"full-tensor-wrong"},
}
"""Per step of the real run, the kinds of findings that say it fails."""


def specs_of(found):
    """The sharded parameters, as transformers itself made them on the ranks; copied over what their own mesh lacks."""
    sizes = found["case"]["mesh"]
    sizes = {**sizes, "efsdp": sizes["fsdp"] * sizes["tp"] // sizes.get("ep", 1)}
    for name, shape, names, _, placements in found["facts"]:
        if names:
            everywhere = ("efsdp", "ep") if {"efsdp", "ep"} & {*names} else ("fsdp", "tp")
            cut = dict(zip(names, placements, strict=True))
            made_by = "fsdp2" if any("fsdp" in one for one in names) else None
            mesh = Mesh({one: sizes[one] for one in everywhere})
            yield name, Spec(shape, mesh, ", ".join(cut.get(one, "R") for one in everywhere), made_by)


def audited(found):
    named = list(specs_of(found))
    known = Known.of(found["config"], found["styles"], found["apart"], itemsize=4)
    return examine(named, installed_release(), extra=stops(named, known))


def compare(found):
    """By step: whether the audit says that it fails, what happened (ok, refused or wrong), and on which ranks by either."""
    report = audited(found)
    kinds = {}
    for one in report.parameters:
        for finding in one.findings:
            if finding.severity == "error":
                kinds.setdefault(finding.kind, set()).update(finding.ranks)
    steps = {}
    for step, outcomes in found["steps"].items():
        if step not in FAILS:
            continue
        said = {kind for kind in kinds if kind in FAILS[step]}
        real = "ok"
        if any(outcome.startswith("wrong") for outcome in outcomes):
            real = "wrong"
        if any(outcome.startswith("raised") or outcome == "waits" for outcome in outcomes):
            real = "refused"
        # Before it tells of a size that does not fit, the loader initialises that weight anew, which waits for the others.
        also = "waits" if step == "load" else "raised"
        raising = {rank for rank, outcome in enumerate(outcomes) if outcome.startswith(("raised", also))}
        expected = set().union(*(kinds[kind] for kind in said))
        steps[step] = (bool(said), real, expected, raising)
    return report, steps
