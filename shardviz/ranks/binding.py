"""Which device and which backend each rank gets: a pure decision, and the facts it needs, read without touching CUDA."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardviz.core.errors import RequestError

BACKENDS = ("auto", "gloo", "nccl")


@dataclass(frozen=True)
class Binding:
    """What the ranks run on.

    Attributes:
        backend: "gloo" or "nccl".
        devices: one per rank, "cpu" or the card as this process counts them ("cuda:2"); inside its rank that card is cuda:0.
        environments: per rank, the environment variables that must be set before CUDA initialises.
        notice: why the ranks use gloo although there are GPUs; None when there is nothing to explain.
    """

    backend: str
    devices: tuple[str, ...]
    environments: tuple[Mapping[str, str], ...]
    notice: str | None = None

    @property
    def group(self) -> str:
        """The backend as `init_process_group` takes it: NCCL ranks keep gloo for their CPU tensors."""
        return "cpu:gloo,cuda:nccl" if self.backend == "nccl" else "gloo"


@dataclass(frozen=True)
class TorchBuild:
    """The installed torch: its version, and the CUDA version it was built for (None for a CPU build)."""

    version: str
    cuda: str | None


def decide(
    n: int,
    gpus: Sequence[str],
    backend: str = "auto",
    devices: Sequence[str] | None = None,
    *,
    torch: TorchBuild | None = None,
) -> Binding:
    """Bind `n` ranks to devices: NCCL where each has a GPU of its own, gloo on the CPU otherwise.

    Args:
        n: number of ranks.
        gpus: the GPUs this process may use, each by the name that CUDA_VISIBLE_DEVICES takes.
        backend: "auto", "gloo" or "nccl".
        devices: one device per rank ("cpu", "cuda:0", …) instead of the choice made here.
        torch: the installed torch, whose CPU build rules NCCL out; None when that is not in question.

    Raises:
        RequestError: the backend and the devices asked for cannot be had here.
    """
    if n < 1:
        raise RequestError(f"{n} ranks asked for: there must be at least 1.")
    if backend not in BACKENDS:
        raise RequestError(f"Unknown backend {backend!r}: use one of {', '.join(BACKENDS)}.")
    if devices is not None:
        return _bind_as_told(n, gpus, backend, tuple(devices), torch)
    obstacle = _obstacle(n, gpus, torch)
    if backend == "gloo" or (backend == "auto" and obstacle):
        return _on_cpu(n, notice=obstacle if backend == "auto" and gpus else None)
    if obstacle:
        raise RequestError(f"NCCL cannot run {_ranks(n)} here: {obstacle} Use backend='gloo'.")
    return _on_cards(gpus, range(n))


def _bind_as_told(n: int, gpus: Sequence[str], backend: str, devices: tuple[str, ...], torch: TorchBuild | None) -> Binding:
    if len(devices) != n:
        raise RequestError(f"{len(devices)} devices for {_ranks(n)}: give one device per rank.")
    cards = [_card(device, gpus) for device in devices]
    if all(card is None for card in cards):
        if backend == "nccl":
            raise RequestError("NCCL needs a GPU for each rank, and the devices asked for are CPUs: use backend='gloo'.")
        return _on_cpu(n)
    chosen = [card for card in cards if card is not None]
    if len(chosen) < n:
        raise RequestError(f"The devices {', '.join(devices)} mix CPU and GPU: all ranks use the one or the other.")
    if backend == "gloo":
        raise RequestError("gloo ranks keep their tensors on the CPU here: leave devices out, or use backend='nccl'.")
    if len(set(chosen)) < n:
        raise RequestError(f"NCCL refuses two ranks on one card: {', '.join(devices)} names a card twice.")
    if torch is not None and torch.cuda is None:
        raise RequestError(f"The installed torch {torch.version} is built without CUDA: the devices must be CPUs.")
    return _on_cards(gpus, chosen)


def _card(device: str, gpus: Sequence[str]) -> int | None:
    """The index in `gpus` of a CUDA device, None for the CPU."""
    if device == "cpu":
        return None
    match = re.fullmatch(r"cuda:(\d+)", device)
    if not match:
        raise RequestError(f"Unknown device {device!r}: use 'cpu' or 'cuda:0', 'cuda:1', ….")
    card = int(match[1])
    if card >= len(gpus):
        raise RequestError(f"There is no {device} here: this process may use {_cards(len(gpus))}.")
    return card


def _obstacle(n: int, gpus: Sequence[str], torch: TorchBuild | None) -> str | None:
    """Why `n` NCCL ranks cannot be had, as a sentence."""
    if not gpus:
        return "this machine has no GPU that this process may use."
    if torch is not None and torch.cuda is None:
        return f"the installed torch {torch.version} is built without CUDA ({_cards(len(gpus))} here)."
    if len(gpus) < n:
        return f"{_ranks(n)} and {_cards(len(gpus))}, and NCCL refuses two ranks on one card."
    return None


def _on_cpu(n: int, notice: str | None = None) -> Binding:
    # Without this an idle rank that touches CUDA would take memory on a card nobody gave it.
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    return Binding("gloo", ("cpu",) * n, (hidden,) * n, notice and f"Using gloo on the CPU: {notice}")


def _on_cards(gpus: Sequence[str], cards: Sequence[int]) -> Binding:
    return Binding(
        "nccl",
        tuple(f"cuda:{card}" for card in cards),
        tuple({"CUDA_VISIBLE_DEVICES": gpus[card]} for card in cards),
    )


def _ranks(n: int) -> str:
    return f"{n} rank{'s' if n != 1 else ''}"


def _cards(n: int) -> str:
    return f"{n or 'no'} GPU{'s' if n != 1 else ''}"


def usable_gpus(environment: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> tuple[str, ...]:
    """The GPUs this process may use, by the names that CUDA_VISIBLE_DEVICES takes, found without initialising CUDA."""
    present = len([path for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)])
    if not present:
        present = _count_by_tool()
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None or not present:
        return tuple(str(index) for index in range(present))
    gpus: list[str] = []
    for name in (part.strip() for part in wanted.split(",")):
        # CUDA itself ignores every name from the first invalid one on.
        if not name.startswith(("GPU-", "MIG-")) and not (name.isdecimal() and int(name) < present):
            break
        gpus.append(name)
    return tuple(gpus)


def _count_by_tool() -> int:
    """Count GPUs with nvidia-smi, for systems whose cards have no device files (WSL)."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    try:
        listing = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return len(re.findall(r"^GPU \d+:", listing, flags=re.MULTILINE))


def installed_torch() -> TorchBuild:
    """Read version and CUDA version of the installed torch without importing it.

    Raises:
        RequestError: torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise RequestError("Real ranks need PyTorch, and it is not installed here: pip install torch.")
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(__version__|cuda)\b[^=\n]*= *'([^']*)'", text, flags=re.MULTILINE))
    return TorchBuild(found["__version__"], found.get("cuda"))
