"""What the tests of tensors have ranks run, in a light module: it asks shardviz and checks with the oracle."""

from functools import lru_cache

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

from shardviz.core.layout import layout
from shardviz.core.placements import Partial, Replicate, Shard, StridedShard
from shardviz.core.recipe import Gather, Reduce
from shardviz.tensors.reported import torch_placements
from shardviz.tensors.resharding import operations_needed
from shardviz.tensors.sharding import cut, reconstruct, reshard, scatter
from tests import oracle

WORDS = {
    Shard: lambda p: ("S", p.dim),
    StridedShard: lambda p: ("SS", p.dim, p.split_factor),
    Replicate: lambda p: ("R",),
    Partial: lambda p: ("P", p.op),
}


def indices(spec):
    """By the oracle, in the order of the mesh's ranks: the global indices held, one list per tensor dimension."""
    words = [WORDS[type(placement)](placement) for placement in spec.placements]
    return list(oracle.holdings(spec.shape, spec.mesh.sizes, words, by_fsdp2=spec.made_by == "fsdp2").values())


def pick(tensor, lists):
    for dim, held in enumerate(lists):
        tensor = tensor.index_select(dim, torch.tensor(held, dtype=torch.int64))
    return tensor


def numbered(shape, dtype=torch.int64):
    """Every element its own number, 1 or more: padding cannot pass for one. Small types count again from 1."""
    count = int(torch.Size(shape).numel())
    if dtype is torch.bool:
        return (torch.arange(count) % 3 == 0).view(shape)
    values = (torch.arange(count) % 13 + 1 if dtype.itemsize == 1 else torch.arange(1, count + 1)).to(dtype)
    return (values * (1 + 2j) if dtype.is_complex else values).view(shape)


@lru_cache(maxsize=64)
def mesh_of(mesh, _group):
    return DeviceMesh("cpu", torch.tensor(mesh.ranks).view(mesh.sizes), mesh_dim_names=mesh.names)


def device_mesh(spec):
    """Torch's mesh; every rank of the process group must call it."""
    return mesh_of(spec.mesh, dist.group.WORLD)


def same(found, expected):
    """Equal bit for bit, and contiguous."""
    if found.dtype != expected.dtype or found.shape != expected.shape or not found.is_contiguous():
        return False
    return torch.equal(bits(found), bits(expected.contiguous()))


def bits(tensor):
    """The memory of a contiguous tensor as bytes."""
    return tensor.resolve_conj().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def sweep(specs):
    """Cut, reconstruct and scatter every spec, each from another source; what was wrong on this rank."""
    wrong = []
    for number, spec in enumerate(specs):
        mesh = device_mesh(spec)
        if dist.get_rank() not in spec.mesh.ranks:
            continue
        whole, pieces = numbered(spec.shape), layout(spec)
        local = pick(whole, indices(spec)[spec.mesh.position(dist.get_rank())])
        source = spec.mesh.ranks[number % spec.mesh.size]
        mine = whole if dist.get_rank() == source else None
        if not same(cut(whole, pieces, dist.get_rank()), local):
            wrong.append(f"{spec}: cut")
        if not same(reconstruct(local, pieces, mesh), whole):
            wrong.append(f"{spec}: reconstruct")
        if not same(scatter(mine, pieces, mesh, source, torch.int64), local):
            wrong.append(f"{spec}: scatter from rank {source}")
    return wrong


def reshard_all(pairs):
    """Reshard between every pair of specs on one mesh; what was wrong on this rank."""
    wrong = []
    for before, after in pairs:
        mesh, place = device_mesh(before), dist.get_rank()
        whole = numbered(before.shape)
        found = reshard(pick(whole, indices(before)[place]), layout(before), layout(after), mesh)
        if not same(found, pick(whole, indices(after)[place])):
            wrong.append(f"{before} to {after}")
    return wrong


def types(spec, dtypes):
    """Every dtype through scatter and reconstruction, from tensors that are not contiguous; what was wrong on this rank."""
    wrong = []
    mesh, pieces, rank = device_mesh(spec), layout(spec), dist.get_rank()
    for dtype in dtypes:
        whole = numbered(spec.shape, dtype)
        transposed = whole.mT.contiguous().mT
        local = pick_any(transposed, indices(spec)[rank]).mT.contiguous().mT
        if not same(scatter(transposed, pieces, mesh), local.contiguous()):
            wrong.append(f"scatter {dtype}")
        if not same(reconstruct(local, pieces, mesh), whole):
            wrong.append(f"reconstruct {dtype}")
    return wrong


def pick_any(tensor, lists):
    """`pick` for types that torch does not index."""
    for dim, held in enumerate(lists):
        parts = [tensor.narrow(dim, i, 1) for i in held]
        tensor = torch.cat(parts, dim) if parts else tensor.narrow(dim, 0, 0)
    return tensor


def in_odd_memory(spec):
    """Tensors whose memory is not simply what they read as; the names of those that came out wrong on this rank."""
    mesh, pieces, rank = device_mesh(spec), layout(spec), dist.get_rank()
    whole = numbered(spec.shape, torch.complex64)
    local, conjugate = cut(whole, pieces, rank), whole.conj().resolve_conj()
    found = {
        "conjugate": (reconstruct(local.conj(), pieces, mesh), conjugate),
        "conjugate, scattered": (scatter(whole.conj(), pieces, mesh), local.conj().resolve_conj()),
        "expanded": (reconstruct(torch.ones(()).expand(local.shape), pieces, mesh), torch.ones(spec.shape)),
        "spread out": (reconstruct(spread_out(local), pieces, mesh), whole),
        "spread out, scattered": (scatter(spread_out(whole), pieces, mesh), local),
    }
    return [what for what, (one, other) in found.items() if not same(one, other)]


def spread_out(tensor):
    """The same tensor with every stride three times as long: one of one element is contiguous all the same."""
    return tensor.new_zeros((*tensor.shape, 3))[..., 1].copy_(tensor)


def sums(spec, dtypes, op):
    """Scatter to pending reductions and reduce them again; and reduce what every rank holds alike; what was wrong."""
    wrong = []
    mesh, pieces, rank = device_mesh(spec), layout(spec), dist.get_rank()
    for dtype in dtypes:
        whole = numbered(spec.shape, dtype)
        held = scatter(whole, pieces, mesh, spec.mesh.ranks[-1])
        if not same(reconstruct(held, pieces, mesh), whole):
            wrong.append(f"{op} {dtype} there and back")
        addends = pick_any(whole, indices(spec)[rank])
        members = 1
        for mesh_dim in spec.pending_dims:
            members *= spec.mesh.sizes[mesh_dim]
        wide = (
            torch.int64 if not (dtype.is_floating_point or dtype.is_complex) else dtype if dtype.itemsize > 1 else torch.float32
        )
        expected = {"sum": whole.to(wide) * members, "product": whole.to(wide) ** members}.get(op, whole).to(dtype)
        if not same(reconstruct(addends, pieces, mesh), expected):
            wrong.append(f"{op} {dtype}")
    return wrong


def negative_zero(spec):
    held = scatter(torch.tensor([-0.0]), layout(spec), device_mesh(spec))
    return bool(torch.signbit(reconstruct(held, layout(spec), device_mesh(spec))).all())


def reconstruction_gradients(specs):
    """Where the gradient differs from what DTensor's full_tensor gives, or from one process; for each spec of this rank."""
    wrong = []
    for spec in specs:
        mesh, pieces, rank = device_mesh(spec), layout(spec), dist.get_rank()
        whole = numbered(spec.shape, torch.float64)
        weights = torch.cos(whole) * (1 + rank)  # another loss on every rank: each rank's own gradient comes back
        local = pick(whole, indices(spec)[rank]).clone().requires_grad_()
        (reconstruct(local, pieces, mesh).pow(3) * weights).sum().backward()

        theirs = local.detach().clone().requires_grad_()
        dtensor = DTensor.from_local(
            theirs, mesh, torch_placements(spec), run_check=False, shape=whole.shape, stride=whole.stride()
        )
        (dtensor.full_tensor().pow(3) * weights).sum().backward()
        if not torch.allclose(local.grad, theirs.grad, rtol=1e-14):
            wrong.append(f"{spec}: DTensor {theirs.grad}, found {local.grad}")

        alone = whole.clone().requires_grad_()
        if not spec.pending_dims:
            (alone.pow(3) * weights).sum().backward()
            if not torch.equal(local.grad, pick(alone.grad, indices(spec)[rank])):
                wrong.append(f"{spec}: one process")
    return wrong


def second_gradients(spec):
    """The second derivative of the sum of cubes, 6·x, through reconstruction."""
    mesh, pieces, rank = device_mesh(spec), layout(spec), dist.get_rank()
    whole = numbered(spec.shape, torch.float64)
    local = pick(whole, indices(spec)[rank]).requires_grad_()
    (first,) = torch.autograd.grad(reconstruct(local, pieces, mesh).pow(3).sum(), local, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), local)
    return torch.equal(second, 6 * local.detach())


def average_gradient(spec):
    """The gradient of an addend of an average: its part of the average's."""
    pieces, rank = layout(spec), dist.get_rank()
    local = torch.ones(pieces[rank].shape, dtype=torch.float64).requires_grad_()
    reconstruct(local, pieces, device_mesh(spec)).sum().backward()
    return local.grad.tolist()


def reshard_gradients(before, after):
    """Resharding's gradient: that of the same loss in one process, cut like the input."""
    mesh, rank = device_mesh(before), dist.get_rank()
    whole = numbered(before.shape, torch.float64)
    local = pick(whole, indices(before)[rank]).requires_grad_()
    reshard(local, layout(before), layout(after), mesh).pow(3).sum().backward()
    return torch.equal(local.grad, pick(3 * whole**2, indices(before)[rank]))


def reshard_sums(before, after):
    """Reshard addends, and reduce what comes out: it is what the reduction of the addends is."""
    mesh, rank = device_mesh(before), dist.get_rank()
    local = pick(numbered(before.shape), indices(before)[rank]) * (rank + 1)
    resharded = reshard(local, layout(before), layout(after), mesh)
    return torch.equal(reconstruct(resharded, layout(after), mesh), reconstruct(local, layout(before), mesh))


def collectives_in(before, after):
    """How many collectives resharding calls."""
    operations, _ = operations_needed(layout(before), layout(after))
    return sum(isinstance(operation, Gather | Reduce) for operation in operations)


def refusal(spec, other):
    """The messages of what is refused before anything is sent."""
    mesh, rank = device_mesh(spec), dist.get_rank()
    whole, pieces = numbered(spec.shape), layout(spec)
    local = cut(whole, pieces, rank)
    requests = [
        lambda: reconstruct(whole, pieces, mesh),
        lambda: reconstruct(local, layout(other), mesh),
        lambda: scatter(None, pieces, mesh),
        lambda: scatter(whole, pieces, mesh, source=7),
        lambda: reshard(local, pieces, layout(other), mesh),
        lambda: reshard(whole, pieces, pieces, mesh),
    ]
    said = []
    for request in requests:
        try:
            request()
        except ValueError as error:
            said.append(str(error))
    return said


def gradient_refusal(spec):
    local = torch.ones(layout(spec)[dist.get_rank()].shape).requires_grad_()
    whole = reconstruct(local, layout(spec), device_mesh(spec))
    try:
        whole.sum().backward()
    except ValueError as error:
        return str(error)
    return ""


def distribute_uneven(spec):
    """What torch's own distribute_tensor makes of a spec on this rank: its shard, or the name of what it raises."""
    try:
        made = distribute_tensor(torch.arange(spec.shape[0]), device_mesh(spec), torch_placements(spec))
    except AssertionError as error:
        return f"AssertionError({error})"
    return made.to_local().tolist()


def full_tensor(spec):
    """What torch's own full_tensor makes of correct shards, and what reconstruct makes of them."""
    mesh, pieces, rank = device_mesh(spec), layout(spec), dist.get_rank()
    whole = torch.arange(spec.numel).view(spec.shape)
    local = pick(whole, indices(spec)[rank])
    dtensor = DTensor.from_local(local, mesh, torch_placements(spec), run_check=False, shape=whole.shape, stride=whole.stride())
    return dtensor.full_tensor().tolist(), reconstruct(local, pieces, mesh).tolist()
