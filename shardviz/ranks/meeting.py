"""What engines that somebody else started are asked: what they are, to join one group, and to leave it again.

Imported on both sides, so nothing here may import torch at the top.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

__all__ = ["EngineFacts", "host_store", "join_at", "leave", "look_around"]

_stores: list[Any] = []  # the store must live as long as the group that met at it


@dataclass(frozen=True)
class EngineFacts:
    """What an engine says of itself.

    Attributes:
        host: name of its machine.
        address: where other machines reach it.
        torch: version of its torch.
        cuda: whether that is a CUDA build.
        gpus: number of cards that it sees.
        visible: its CUDA_VISIBLE_DEVICES; None where it is not set.
    """

    host: str
    address: str
    torch: str
    cuda: bool
    gpus: int
    visible: str | None


def look_around() -> EngineFacts:
    """Say what this engine is. CUDA is not initialised."""
    import torch

    from shardviz.ranks.binding import usable_gpus

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return EngineFacts(
        socket.gethostname(), _address(), torch.__version__, torch.version.cuda is not None, len(usable_gpus()), visible
    )


def _address() -> str:
    """The address of the interface that leads to other machines; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 1))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def host_store(address: str) -> int:
    """Open the store at which the ranks meet, listening on this address only.

    Returns:
        The port.
    """
    import torch.distributed as dist

    with socket.socket() as listener:
        listener.bind((address, 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        store = dist.TCPStore(  # type: ignore[attr-defined]  # public, but not re-exported by name
            address, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach()
        )
    _stores[:] = [store]
    return port


def join_at(rank: int, n: int, group: str, address: str, port: int, seconds: float, card: int | None) -> None:
    """Join this engine to the group of all ranks, as `rank`.

    Args:
        rank: this rank.
        n: number of ranks.
        group: the backend, as `init_process_group` takes it.
        address: where the store listens.
        port: likewise.
        seconds: after which a collective that is not met raises, so that the engine is its owner's again.
        card: the card of this rank, as this engine counts them; None on the CPU.
    """
    import torch
    import torch.distributed as dist

    from shardviz.ranks import worker  # noqa: F401  # what the first run would otherwise wait for

    leave()
    device = None
    if card is not None:
        device = torch.device("cuda", card)
        torch.cuda.set_device(device)
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    if address == "127.0.0.1":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        dist.init_process_group(
            group,
            store=dist.TCPStore(address, port, is_master=False),  # type: ignore[attr-defined]
            rank=rank,
            world_size=n,
            timeout=timedelta(seconds=seconds),
            device_id=device,
        )
    finally:
        if interface is None:
            os.environ.pop("GLOO_SOCKET_IFNAME", None)
        else:
            os.environ["GLOO_SOCKET_IFNAME"] = interface


def leave() -> None:
    """Leave the group, if this engine is in one."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
