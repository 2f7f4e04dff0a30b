"""Small programs that communicate in every way that torch has: what a recorder must not change, and must not miss.

Each is a function of this rank's number and the number of ranks, and returns what it computed, in plain data.
"""

import re
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

PROGRAMS = {}
SLOW = set()
"""Those that compile, which takes long."""


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def own(rank, size=3):
    return torch.arange(size, dtype=torch.float32) + 10 * rank


@program
def all_reduce(rank, n):
    tensor = own(rank)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


@program
def all_reduce_of_the_group_by_names(rank, n):
    tensor = own(rank)
    dist.group.WORLD.allreduce(tensors=[tensor], opts=dist.AllreduceOptions()).wait()
    return tensor.tolist()


@program
def all_reduce_of_the_group_by_position(rank, n):
    tensor = own(rank)
    dist.group.WORLD.allreduce([tensor]).wait()
    return tensor.tolist()


@program
def broadcast_of_the_group_by_names(rank, n):
    tensor = own(rank)
    dist.group.WORLD.broadcast(tensors=[tensor], opts=dist.BroadcastOptions()).wait()
    return tensor.tolist()


@program
def broadcast(rank, n):
    tensor = own(rank)
    dist.broadcast(tensor, src=1)
    return tensor.tolist()


@program
def reduce(rank, n):
    tensor = own(rank)
    dist.reduce(tensor, dst=1)
    return tensor.tolist() if rank == 1 else None


@program
def all_gather_list(rank, n):
    parts = [torch.empty(3) for _ in range(n)]
    dist.all_gather(parts, own(rank))
    return [part.tolist() for part in parts]


@program
def all_gather_into_tensor(rank, n):
    out = torch.empty(3 * n)
    dist.all_gather_into_tensor(output_tensor=out, input_tensor=own(rank))
    return out.tolist()


@program
def gather(rank, n):
    parts = [torch.empty(3) for _ in range(n)] if rank == 0 else None
    dist.gather(own(rank), parts, dst=0)
    return parts and [part.tolist() for part in parts]


@program
def scatter(rank, n):
    out = torch.empty(3)
    dist.scatter(out, [own(other) for other in range(n)] if rank == 0 else None, src=0)
    return out.tolist()


@program
def reduce_scatter_list(rank, n):
    out = torch.empty(3)
    dist.reduce_scatter(out, [own(rank + other) for other in range(n)])
    return out.tolist()


@program
def reduce_scatter_tensor(rank, n):
    out = torch.empty(2)
    dist.reduce_scatter_tensor(out, own(rank, 2 * n))
    return out.tolist()


@program
def all_to_all_list(rank, n):
    out = [torch.empty(3) for _ in range(n)]
    dist.all_to_all(out, [own(10 * rank + other) for other in range(n)])
    return [part.tolist() for part in out]


@program
def all_to_all_single_even(rank, n):
    out = torch.empty(2 * n)
    dist.all_to_all_single(out, own(rank, 2 * n))
    return out.tolist()


@program
def all_to_all_single_uneven(rank, n):
    gives, takes = uneven(rank, n)
    out = torch.empty(sum(takes), 2)
    dist.all_to_all_single(out, torch.full((sum(gives), 2), float(rank)), takes, gives)
    return out.tolist()


def uneven(rank, n):
    return [(rank + other) % n for other in range(n)], [(other + rank) % n for other in range(n)]


@program
def barrier(rank, n):
    dist.barrier()


@program
def monitored_barrier(rank, n):
    dist.monitored_barrier()


@program
def objects(rank, n):
    everyone, mine, scattered = [None] * n, [{"of": 0}] if rank == 0 else [None], [None]
    dist.all_gather_object(everyone, {"rank": rank})
    dist.broadcast_object_list(mine, src=0)
    dist.scatter_object_list(scattered, list(range(n)) if rank == 0 else None, src=0)
    gathered = [None] * n if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0)
    return everyone, mine, scattered, gathered


@program
def coalesced(rank, n):
    one, two = own(rank), own(rank + 1)
    with dist.distributed_c10d._coalescing_manager():
        dist.all_reduce(one)
        dist.all_reduce(two)
    return one.tolist(), two.tolist()


@program
def send_and_recv(rank, n):
    tensor = own(rank)
    if rank == 0:
        dist.send(tensor, dst=1, tag=3)
    elif rank == 1:
        dist.recv(tensor, src=0, tag=3)
    return tensor.tolist()


@program
def recv_from_any(rank, n):
    tensor = own(rank)
    if rank == 0:
        dist.send(tensor, 1)
    elif rank == 1:
        return dist.recv(tensor), tensor.tolist()
    return None


@program
def isend_and_irecv(rank, n):
    tensor = torch.empty(3)
    works = [dist.isend(own(rank), (rank + 1) % n), dist.irecv(tensor, (rank - 1) % n)]
    for work in works:
        work.wait()
    return tensor.tolist()


@program
def batched(rank, n):
    tensor = torch.empty(3)
    sends = dist.P2POp(dist.isend, own(rank), (rank + 1) % n)
    receives = dist.P2POp(dist.irecv, tensor, (rank - 1) % n)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()
    return tensor.tolist()


@program
def objects_from_one_to_another(rank, n):
    objects = [{"from": rank}, "text"]
    if rank == 0:
        dist.send_object_list(objects, 1)
    elif rank == 1:
        dist.recv_object_list(objects, 0)
    return objects


@program
def work_that_is_polled(rank, n):
    tensor = own(rank)
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        pass
    return tensor.tolist()


@program
def a_future(rank, n):
    tensor = own(rank)
    dist.all_reduce(tensor, async_op=True).get_future().wait()
    return tensor.tolist()


@program
def a_chain_of_futures(rank, n):
    future = dist.all_reduce(own(rank), async_op=True).get_future()
    return future.then(lambda done: done.value()[0] * 2).wait().tolist()


@program
def functional(rank, n):
    name = dist.group.WORLD.group_name
    ops = torch.ops._c10d_functional
    out = [
        ops.all_reduce(own(rank), "sum", name),
        ops.all_reduce(own(rank), reduce_op="max", group_name=name),
        ops.all_reduce.default(own(rank), "sum", name),
        ops.all_gather_into_tensor.default(own(rank), n, name),
        ops.reduce_scatter_tensor(own(rank, n), "sum", n, name),
        ops.broadcast(own(rank), 1, name),
        *ops.all_reduce_coalesced([own(rank), own(rank + 1)], "sum", name),
    ]
    return [ops.wait_tensor(part).tolist() for part in out]


@program
def autograd_functions(rank, n):
    from torch.distributed.nn.functional import all_reduce

    tensor = own(rank).requires_grad_()
    all_reduce(tensor).square().sum().backward()
    return tensor.grad.tolist()


@program
def subgroups(rank, n):
    pairs = [dist.new_group([0, 1]), dist.new_group(list(range(2, n)))]
    tensor = own(rank)
    dist.all_reduce(tensor, group=pairs[rank >= 2])
    for pair in pairs:
        dist.destroy_process_group(pair)
    return tensor.tolist()


@program
def another_thread(rank, n):
    tensor = own(rank)
    thread = threading.Thread(target=dist.all_reduce, args=(tensor,))
    thread.start()
    thread.join()
    return tensor.tolist()


@program
def without_gradients(rank, n):
    with torch.inference_mode():
        tensor = own(rank)
        dist.all_reduce(tensor)
        return tensor.tolist()


@program
def a_mode_that_counts(rank, n):
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as mode:
        dist.all_reduce(own(rank))
        DTensor.from_local(own(rank), mesh(n), [Partial()]).full_tensor()
    return mode.get_total_counts()


def mesh(n):
    return init_device_mesh("cpu", (n,))


@program
def dtensors(rank, n):
    tensor = distribute_tensor(torch.arange(10.0), mesh(n), [Shard(0)])
    whole = DTensor.from_local(own(rank), mesh(n), [Partial()]).redistribute(placements=[Replicate()])
    return tensor.full_tensor().tolist(), whole.to_local().tolist()


@program
def dtensor_from_one_dimension_to_another(rank, n):
    tensor = distribute_tensor(torch.arange(30.0).reshape(5, 6), mesh(n), [Shard(0)])
    return tensor.redistribute(placements=[Shard(1)]).to_local().tolist()


def model(hidden=6):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, hidden), nn.ReLU(), nn.Linear(hidden, 3))


def trained(wrapped, rank):
    for _ in range(2):
        wrapped(own(rank, 10).reshape(2, 5)).square().mean().backward()
    grads = [parameter.grad for parameter in wrapped.parameters()]
    return [(grad.full_tensor() if isinstance(grad, DTensor) else grad).tolist() for grad in grads if grad is not None]


@program
def ddp(rank, n):
    return trained(nn.parallel.DistributedDataParallel(model()), rank)


@program
def ddp_with_a_hook(rank, n):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    wrapped = nn.parallel.DistributedDataParallel(model())
    wrapped.register_comm_hook(None, allreduce_hook)
    return trained(wrapped, rank)


@program
def fsdp1(rank, n):
    from torch.distributed.fsdp import FullyShardedDataParallel

    return trained(FullyShardedDataParallel(model(), device_id=torch.device("cpu")), rank)


@program
def fsdp2(rank, n):
    from torch.distributed.fsdp import fully_shard

    whole = model()
    for part in (whole[0], whole[2], whole):
        fully_shard(part, mesh=mesh(n))
    return trained(whole, rank)


@program
def tensor_parallel(rank, n):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    whole = parallelize_module(model(8), mesh(n), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return trained(whole, 0)


@program
def zero(rank, n):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    whole = model()
    optimizer = ZeroRedundancyOptimizer(whole.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)
    whole(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    return [parameter.tolist() for parameter in whole.parameters()]


@program
def pipeline(rank, n):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(rank)
    stage = PipelineStage(nn.Linear(4, 4), rank, n, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=n, loss_fn=lambda out, target: (out - target).square().mean())
    if rank == 0:
        schedule.step(torch.ones(2 * n, 4))
    elif rank == n - 1:
        losses = []
        schedule.step(target=torch.zeros(2 * n, 4), losses=losses)
        return [float(loss) for loss in losses]
    else:
        schedule.step()
    return None


def compiled(rank, backend):
    import torch.distributed._functional_collectives as collectives

    torch.compiler.reset()
    twice = torch.compile(lambda x: collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1, backend=backend, fullgraph=True)
    return twice(own(rank)).tolist()


@program
def compiled_by_aot_eager(rank, n):
    return compiled(rank, "aot_eager")


@program
def compiled_by_inductor(rank, n):
    return compiled(rank, "inductor")


SLOW.update({"compiled_by_inductor"})


@program
def a_compiled_function_that_polls(rank, n):
    torch.compiler.reset()

    @torch.compile(backend="aot_eager")
    def polls(x):
        work = dist.group.WORLD.allreduce([x])
        work.wait()
        return x + 1

    return polls(own(rank)).tolist()


@program
def fake_tensors(rank, n):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        tensor = torch.ones(4)
        out = torch.ops._c10d_functional.all_reduce(tensor, "sum", dist.group.WORLD.group_name)
        return list(torch.ops._c10d_functional.wait_tensor(out).shape)


@program
def a_wrong_dtype(rank, n):
    dist.all_reduce(torch.ones(2, dtype=torch.complex64), op=dist.ReduceOp.MAX)


@program
def a_wrong_argument(rank, n):
    dist.group.WORLD.allreduce(tensor_of_mine=own(rank))


@program
def a_wrong_layout(rank, n):
    dist.group.WORLD.allreduce([torch.eye(2).to_sparse_csr()]).wait()


@program
def a_wrong_size(rank, n):
    dist.all_gather_into_tensor(torch.empty(3 * n + 1), own(rank))


@program
def a_wrong_peer(rank, n):
    dist.send(own(rank), dst=rank)


@program
def no_such_group(rank, n):
    torch.ops._c10d_functional.all_reduce(own(rank), "sum", "no such group")


def run(names):
    """What each program returned, or which exception it raised.

    Without addresses, and without one line of the table of kernels that torch appends where it has none for a tensor.
    """
    found = {}
    for name in names:
        try:
            found[name] = PROGRAMS[name](dist.get_rank(), dist.get_world_size())
        except Exception as error:
            found[name] = re.sub(r"0x[0-9a-f]+|\nBackendSelect: .*", "", f"{type(error).__name__}: {error}")
    return found


def recorded(names):
    """The same, recorded; and for every program the lines of its record, and what torch's profiler counted."""
    from shardviz.ranks.listening import listening
    from shardviz.ranks.tape import Tape

    found, records, counts = {}, {}, {}
    for name in names:
        lines = []
        tape = Tape(lines.append, dist.get_rank(), dist.get_world_size(), name, 64)
        with listening(tape), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            found |= run([name])
        tape.end()
        records[name] = b"".join(lines)
        counts[name] = sum(event.name in COMMUNICATES for event in profile.events())
    return found, records, counts


COMMUNICATES = {
    *("c10d::allreduce_", "c10d::allreduce_coalesced_", "c10d::broadcast_", "c10d::reduce_", "c10d::gather_", "c10d::scatter_"),
    *("c10d::allgather_", "c10d::_allgather_base_", "c10d::allgather_coalesced_", "c10d::allgather_into_tensor_coalesced_"),
    *("c10d::reduce_scatter_", "c10d::_reduce_scatter_base_", "c10d::reduce_scatter_tensor_coalesced_"),
    *("c10d::alltoall_", "c10d::alltoall_base_", "c10d::barrier", "c10d::monitored_barrier_"),
    *("c10d::send", "c10d::recv_", "c10d::recv_any_source_"),
}
"""How torch's profiler calls what a recorder must have seen."""
