"""Which device and which backend each rank gets: a pure decision, and the facts it needs, read without touching CUDA."""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardviz.core.errors import RequestError
from shardviz.core.whole import whole

BACKENDS = ("auto", "gloo", "nccl")
NcclVersion = tuple[int, int, int]
SHARING_NCCL: NcclVersion = (2, 30, 0)
"""The first NCCL that lets several ranks share a card."""
SHARED_CTAS = 8
"""Thread blocks that the ranks on one card divide among themselves."""


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
    share_gpus: bool = False,
    nccl: NcclVersion | None = None,
    torch: TorchBuild | None = None,
) -> Binding:
    """Bind `n` ranks to devices: NCCL where each has a GPU of its own, or may share one; gloo on the CPU otherwise.

    Args:
        n: number of ranks.
        gpus: the GPUs this process may use, each by the name that CUDA_VISIBLE_DEVICES takes.
        backend: "auto", "gloo" or "nccl".
        devices: one device per rank ("cpu", "cuda:0", …) instead of the choice made here.
        share_gpus: put several NCCL ranks on one card where there are fewer cards than ranks.
        nccl: version of the NCCL library that would be used; None where there is none.
        torch: the installed torch, whose CPU build rules NCCL out; None when that is not in question.

    Raises:
        RequestError: the backend and the devices asked for cannot be had here.
    """
    if whole(n) is None:
        raise RequestError(f"{n!r} ranks asked for: a whole number is expected, such as 4.")
    if n < 1:
        raise RequestError(f"{n} ranks asked for: there must be at least 1.")
    if backend not in BACKENDS:
        raise RequestError(f"Unknown backend {backend!r}: use one of {', '.join(BACKENDS)}.")
    if devices is not None:
        return _bind_as_told(n, gpus, backend, tuple(devices), share_gpus, nccl, torch)
    if share_gpus and backend != "gloo" and 0 < len(gpus) < n and (torch is None or torch.cuda):
        _check_sharing(nccl)
        return _on_cards(gpus, [rank * len(gpus) // n for rank in range(n)])
    obstacle = _obstacle(n, gpus, torch)
    if backend == "gloo" or (backend == "auto" and obstacle):
        return _on_cpu(n, notice=obstacle if backend == "auto" and gpus else None)
    if obstacle:
        raise RequestError(f"NCCL cannot run {_ranks(n)} here: {obstacle} Use backend='gloo'.")
    return _on_cards(gpus, range(n))


def _bind_as_told(
    n: int,
    gpus: Sequence[str],
    backend: str,
    devices: tuple[str, ...],
    share_gpus: bool,
    nccl: NcclVersion | None,
    torch: TorchBuild | None,
) -> Binding:
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
    if torch is not None and torch.cuda is None:
        raise RequestError(f"The installed torch {torch.version} is built without CUDA: the devices must be CPUs.")
    if len(set(chosen)) < n:
        if not share_gpus:
            raise RequestError(
                f"NCCL refuses two ranks on one card, unless share_gpus=True: {', '.join(devices)} names a card twice."
            )
        _check_sharing(nccl)
    return _on_cards(gpus, chosen)


def _check_sharing(nccl: NcclVersion | None) -> None:
    if nccl is None or nccl < SHARING_NCCL:
        found = "no NCCL library was found" if nccl is None else f"the NCCL in use is {'.'.join(map(str, nccl))}"
        needed = ".".join(map(str, SHARING_NCCL[:2]))
        raise RequestError(f"share_gpus=True needs NCCL {needed} or later, and {found}. Leave it out to use gloo on the CPU.")


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
        return f"{_ranks(n)} and {_cards(len(gpus))}, and NCCL refuses two ranks on one card (share_gpus=True lets them share)."
    return None


def _on_cpu(n: int, notice: str | None = None) -> Binding:
    # Without this an idle rank that touches CUDA would take memory on a card nobody gave it.
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    return Binding("gloo", ("cpu",) * n, (hidden,) * n, notice and f"Using gloo on the CPU: {notice}")


def _on_cards(gpus: Sequence[str], cards: Sequence[int]) -> Binding:
    on_card = Counter(cards)
    return Binding(
        "nccl",
        tuple(f"cuda:{card}" for card in cards),
        tuple({"CUDA_VISIBLE_DEVICES": gpus[card], **_sharing(on_card[card])} for card in cards),
    )


def _sharing(ranks: int) -> dict[str, str]:
    """What NCCL must be told where several ranks are on one card."""
    if ranks == 1:
        return {}
    return {
        "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_MAX_CTAS": str(max(1, SHARED_CTAS // ranks)),
    }


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


def loaded_nccl() -> NcclVersion | None:
    """The version of the NCCL library that torch loads, asked of the library itself; None where there is none.

    What torch tells is the version it was built with.
    """
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) / "nccl" / "lib" / "libnccl.so.2" for place in (spec and spec.submodule_search_locations) or ()]
    for library in (*(str(place) for place in places if place.exists()), "libnccl.so.2"):
        number = ctypes.c_int()
        try:
            failed = ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number))
        except (OSError, AttributeError):
            continue
        if not failed:
            return number.value // 10_000, number.value // 100 % 100, number.value % 100
    return None
