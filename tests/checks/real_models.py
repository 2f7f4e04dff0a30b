"""Run as a program: small models of transformers on real gloo ranks, by transformers' own FSDP2 and TP; what really happens.

It reads cases as JSON from standard input and prints one line of JSON for each: by step, what every rank came to ("ok",
"raised …", "waits", "wrong …"). torch and transformers are imported once, and the ranks forked; whoever waits longer than the
bound is ended. Nothing of shardviz is used here: this is the reality that its audit is held against.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
import zlib
from datetime import timedelta
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.tensor import DTensor

LONELY = 20.0
"""Seconds that the ranks which have come through a step wait for the others."""

WHOLE_STEP = 40.0
"""Seconds that any step may take, on a busy machine too."""

SMALL = {
    "vocab_size": 19,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""What every small model has, unless a case says otherwise."""


def config_of(case):
    from transformers import AutoConfig

    return AutoConfig.for_model(case["family"], **{**SMALL, **case.get("config", {})})


def class_of(config):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM._model_mapping[type(config)]


def whole_model(config):
    """The model in one process, the same for equal configurations."""
    torch.manual_seed(0)
    model = class_of(config)(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.tie_weights()
    return model.eval()


def tokens(config):
    return torch.arange(12).view(2, 6) % config.vocab_size


class Rank:
    """One rank of one case."""

    def __init__(self, case, config, weights, right, directory):
        self.case, self.config, self.weights, self.right, self.directory = case, config, weights, right, directory
        self.model = None

    def parallelism(self):
        from transformers.distributed import DistributedConfig

        return DistributedConfig(**{f"{name}_size": size for name, size in self.case["mesh"].items()})

    def load(self):
        self.model = class_of(self.config).from_pretrained(
            self.weights, distributed_config=self.parallelism(), attn_implementation="eager"
        )
        return ""

    def init(self):
        """Without weights: every parameter is initialised in its shards."""
        self.model = class_of(self.config).from_pretrained(
            None, config=self.config, state_dict={}, distributed_config=self.parallelism(), attn_implementation="eager"
        )
        for name, parameter in self.model.named_parameters():  # copies are equal
            place = []
            if isinstance(parameter, DTensor):
                along = zip(parameter.device_mesh.get_coordinate(), parameter.placements, strict=True)
                place = [index for index, placement in along if not placement.is_replicate()]
            own = torch.Generator().manual_seed(zlib.crc32(f"{name} {place}".encode()))
            local = (parameter.to_local() if isinstance(parameter, DTensor) else parameter).detach()
            local.copy_(0.2 * torch.randn(local.shape, generator=own))
        return ""

    def facts(self):
        found = []
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            if isinstance(parameter, DTensor):
                mesh = parameter.device_mesh
                found.append(
                    [name, [*parameter.shape], [*mesh.mesh_dim_names], [*mesh.shape], [str(p) for p in parameter.placements]]
                )
            else:
                found.append([name, [*parameter.shape], [], [], []])
        if dist.get_rank() == 0:
            tp, ep, _ = self.model._resolve_parallel_plans(self.parallelism())
            said = {"facts": found, "styles": {**tp, **ep}, "apart": self.apart()}
            said["config"] = json.loads(self.config.to_json_string(use_diff=False))
            Path(self.directory, "facts.json").write_text(json.dumps(said))
        return ""

    def apart(self):
        """The weights that are put together of single experts when they are loaded."""
        from transformers.conversion_mapping import get_model_conversion_mapping

        merged = [
            target
            for one in get_model_conversion_mapping(self.model)
            for target in one.target_patterns
            if any(".experts.*" in source for source in one.source_patterns)
        ]
        return [name for name, _ in self.model.named_parameters() if any(name.endswith(target) for target in merged)]

    def forward(self):
        self.model.train()
        ids = tokens(self.config)
        self.out = self.model(input_ids=ids, labels=ids, use_cache=False)
        logits = self.out.logits
        logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
        if not self.loaded:
            return ""
        off = (logits.detach() - self.right).abs().max().item()
        return "" if off < 1e-3 else f"wrong: logits differ by {off:.3g}"

    def infer(self):
        self.model.eval()
        with torch.no_grad():
            logits = self.model(input_ids=tokens(self.config), use_cache=False).logits
        logits = logits.full_tensor() if isinstance(logits, DTensor) else logits
        if not self.loaded:
            return ""
        off = (logits.detach() - self.right).abs().max().item()
        return "" if off < 1e-3 else f"wrong: logits differ by {off:.3g}"

    def backward(self):
        self.out.loss.backward()
        return ""

    def locals(self):
        return {
            name: (p.to_local() if isinstance(p, DTensor) else p).detach().clone() for name, p in self.model.named_parameters()
        }

    def overwrite(self):
        for p in self.model.parameters():
            (p.to_local() if isinstance(p, DTensor) else p).detach().fill_(-7.0)

    def compared(self, before):
        after = self.locals()  # what was never initialised may be NaN, which is not equal to itself
        wrong = [name for name in after if not torch.equal(after[name].nan_to_num(), before[name].nan_to_num())]
        return "wrong: " + ", ".join(wrong) if wrong else ""

    def save(self):
        dcp.save({"model": get_model_state_dict(self.model)}, checkpoint_id=f"{self.directory}/plain")
        return ""

    def again(self):
        before = self.locals()
        self.overwrite()
        dcp.load({"model": get_model_state_dict(self.model)}, checkpoint_id=f"{self.directory}/plain")
        return self.compared(before)

    def save_own(self):
        """transformers' own distributed checkpoint."""
        self.model.save_pretrained(f"{self.directory}/own", distributed_checkpoint=True)
        return ""

    def again_own(self):
        from transformers.distributed.checkpoint import _load_model_checkpoint_distributed

        before = self.locals()
        self.overwrite()
        _load_model_checkpoint_distributed(self.model, f"{self.directory}/own")
        return self.compared(before)

    def gather(self):
        """transformers' usual files, gathered on rank 0."""
        self.model.save_pretrained(f"{self.directory}/gathered")
        if dist.get_rank() or not self.loaded:
            return ""
        from safetensors.torch import load_file

        (mine,) = Path(self.directory, "gathered").glob("*.safetensors")
        (first,) = Path(self.weights).glob("*.safetensors")
        mine, first = load_file(mine), load_file(first)
        wrong = [name for name in first if name not in mine or not torch.equal(mine[name], first[name])]
        return "wrong: " + ", ".join(wrong) if wrong else ""


STEPS = ("load", "facts", "infer", "forward", "backward", "save", "again", "save_own", "again_own", "gather")


def said(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"raised {type(error).__name__}: {lines[-1] if lines else 'without text'}"[:400]


def run_rank(rank, size, rank_object, steps, journal):
    """Inside a forked process: the steps, one after the other, and after each a look at whether all came through."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    store = dist.FileStore(f"{journal}/meeting", size)
    dist.init_process_group(
        "gloo", store=dist.FileStore(f"{journal}/group", size), rank=rank, world_size=size, timeout=timedelta(seconds=600)
    )
    for step in steps:
        write(journal, rank, step, "began")
        try:
            outcome = getattr(rank_object, step)() or "ok"
        except BaseException as error:
            outcome = said(error)
            if os.environ.get("SHOW"):
                traceback.print_exc()
        write(journal, rank, step, outcome)
        store.set(f"{step}/{rank}", outcome)
        try:
            for other in range(size):
                store.wait([f"{step}/{other}"], timedelta(seconds=LONELY))
        except Exception:
            Path(journal, "stuck").touch()  # some rank hangs: the parent ends all, and this one's end must not wake it
            time.sleep(WHOLE_STEP)
        if any(store.get(f"{step}/{other}") != b"ok" for other in range(size)):
            os._exit(4)  # on to the next step in new processes
    os._exit(0)


def write(journal, rank, step, outcome):
    with open(Path(journal, str(rank)), "a") as file:
        file.write(json.dumps([step, outcome]) + "\n")


def read(journal, size):
    found = []
    for rank in range(size):
        path = Path(journal, str(rank))
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        found.append(dict(lines))  # the last word about a step
    return found


def fork_ranks(size, make, steps, directory):
    """Fork the ranks, wait for them, end those that hang; what the journals say."""
    journal = Path(tempfile.mkdtemp(dir=directory, prefix="journal-"))
    pids = {}
    sys.stdout.flush()
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            try:
                if not os.environ.get("SHOW"):
                    null = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(null, 1), os.dup2(null, 2)
                run_rank(rank, size, make(), steps, journal)
            finally:
                os._exit(5)
        pids[pid] = rank
    give_up = time.monotonic() + WHOLE_STEP * len(steps)
    while pids:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        if pid:
            del pids[pid]
        elif time.monotonic() > give_up or Path(journal, "stuck").exists():
            break
        else:
            time.sleep(0.02)
    found = read(journal, size)  # before the end of some wakes others
    for pid in pids:
        os.kill(pid, 9)
    for pid in pids:
        os.waitpid(pid, 0)
    for one in found:
        for step, outcome in one.items():
            if outcome == "began":
                one[step] = "waits"
    return found


def run_case(case, weights_of, directory):
    size = 1
    for name, count in case["mesh"].items():
        size *= count if name != "ep" else 1
    config, weights, right = weights_of(case)
    found = {}
    left = [step for step in case.get("steps", STEPS) if step != "load"]
    place = tempfile.mkdtemp(dir=directory)
    start, loaded = "load", True
    while left or start not in found:

        def make(loaded=loaded):
            rank = Rank(case, config, weights, right, place)
            rank.loaded = loaded
            return rank

        steps = [start, *left]
        came = fork_ranks(size, make, steps, place)
        done = [step for step in steps if any(step in one for one in came)]
        for step in done:
            if step not in found:
                found[step] = [one.get(step, "not reached") for one in came]
        bad = next((step for step in done if any(one.get(step) != "ok" for one in came)), None)
        if bad == "load":
            start, loaded = "init", False
            continue
        if bad in ("init", None):
            break
        after = left.index(bad) + 1
        drop = {"forward": ["backward"], "save": ["again"], "save_own": ["again_own"]}.get(bad, [])
        left = [step for step in left[after:] if step not in drop]
        if not left:
            break
    facts = Path(place, "facts.json")
    known = json.loads(facts.read_text()) if facts.exists() else {"facts": [], "styles": {}, "apart": [], "config": {}}
    shutil.rmtree(place)
    return {"case": case, "steps": found, **known}


def main():
    torch.set_num_threads(1)
    cases = json.load(sys.stdin)
    made = {}
    with tempfile.TemporaryDirectory(prefix="real-models-") as directory:

        def weights_of(case):
            key = json.dumps([case["family"], case.get("config", {})], sort_keys=True)
            if key not in made:
                config = config_of(case)
                model = whole_model(config)
                with torch.no_grad():
                    right = model(input_ids=tokens(config), use_cache=False).logits
                place = tempfile.mkdtemp(dir=directory)
                model.save_pretrained(place)
                made[key] = (config, place, right)
            return made[key]

        for case in cases:
            try:
                print(json.dumps(run_case(case, weights_of, directory)), flush=True)
            except Exception as error:
                print(json.dumps({"case": case, "error": said(error)}), flush=True)


if __name__ == "__main__":
    main()
