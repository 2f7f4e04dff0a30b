"""A program of plain torch: loads checkpoints into full tensors, and on two ranks with tensor parallelism alone.

Given directories with a file `truth`, it prints which tensors come back wrong. It never imports shardviz.
"""

import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

STALE = -77.0


def load(rank, store, directories):
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    for directory in directories:
        truth = torch.load(f"{directory}/truth")
        full = {name: torch.full_like(tensor, STALE) for name, tensor in truth.items()}
        cut = {name: distribute_tensor(tensor.clone(), mesh, [Shard(0)]) for name, tensor in full.items() if tensor.ndim}
        dcp.load(full, checkpoint_id=directory)
        dcp.load(cut, checkpoint_id=directory)
        for name, tensor in truth.items():
            for loaded in (full[name], *([cut[name].full_tensor()] if name in cut else [])):
                if not torch.equal(loaded, tensor):
                    print("wrong", directory, name, flush=True)
        if rank == 0:
            print("loaded", directory, flush=True)
    assert "shardviz" not in sys.modules
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(load, (sys.argv[1], sys.argv[2:]), nprocs=2, start_method="fork")
