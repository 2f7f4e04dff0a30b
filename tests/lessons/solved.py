"""The right answers from the oracle, which shares no code with the package; and how solutions answer."""

from importlib import import_module

from shardviz.lessons.catalogue import IDS, find
from shardviz.lessons.functions import Code
from shardviz.lessons.questions import Ask
from tests import oracle

CODE = [name for name in IDS if isinstance(find(name), Code)]
ASK = [name for name in IDS if isinstance(find(name), Ask)]
SEEDS = ("0", "1", "ada")


def solution_of(name):
    exercise = find(name)
    return getattr(import_module(f"shardviz.lessons.solutions.{exercise.name}"), exercise.name)


def answers_of(name, seed):
    """What a solution hands in, one after the other."""
    solution = solution_of(name)
    if name in CODE:
        return [solution]
    answer = solution(find(name).given(seed))
    return list(answer) if name == "find-the-bug" else [answer]


def parts(n, dp, tp, reading="sharding-order"):
    """Per rank of FSDP2 over TP, the elements held, in rank order."""
    held = oracle.holdings((n,), (dp, tp), (("SS", 0, tp), ("S", 0)), reading)
    return [held[d, t][0] for d in range(dp) for t in range(tp)]


def reported_wrongly(n, dp, tp):
    """The ranks whose shape and offset differ by the two readings."""
    pairs = enumerate(zip(parts(n, dp, tp), parts(n, dp, tp, "left-to-right"), strict=True))
    return {rank for rank, (one, other) in pairs if (len(one), (one or [n])[0]) != (len(other), (other or [n])[0])}


def chunk_sizes(size, ranks):
    return [len(part) for part in oracle.chunks(list(range(size)), ranks)]


def split_and_pad(elements, ranks):
    cut = oracle.chunks(elements, ranks)
    longest = max(len(part) for part in cut)
    return [part + [None] * (longest - len(part)) for part in cut]


def fsdp_over_tp(elements, dp, tp):
    held = parts(len(elements), dp, tp)
    return {(d, t): [elements[i] for i in held[d * tp + t]] for d in range(dp) for t in range(tp)}


def unpad(gathered, sizes):
    slots = [i for i in range(len(gathered)) if i % max(sizes) < sizes[i // max(sizes)]]
    return [gathered[i] for i in slots]


def unshuffle(pieces, size, dp, tp):
    where = {i: (rank, place) for rank, part in enumerate(parts(size, dp, tp)) for place, i in enumerate(part)}
    return [pieces[where[i][0]][where[i][1]] for i in range(size)]


def shape_and_offset(size, cuts, coordinate):
    items = list(range(size))
    for count, place in zip(cuts, coordinate, strict=True):
        items = oracle.chunks(items, count)[place]
    return len(items), items[0] if items else size


def explicit_order(factors, sizes):
    cuts = [oracle.Cut(m, sizes[m], factor) for m, factor in enumerate(factors) if factor is not None]
    return next(([cut.mesh_dim for cut in order] for order in oracle.orders(cuts)), None)


def owner(element, size, dp, tp):
    return next((rank, part.index(element)) for rank, part in enumerate(parts(size, dp, tp)) if element in part)


def bytes_sent(size, itemsize, ranks):
    return sum(itemsize for other in range(1, ranks) for _ in oracle.chunks(list(range(size)), ranks)[0])


def uneven_mean(shards):
    values = [value for shard in shards for value in shard]
    return sum(values) / len(values)


def local_gradients(rows, held, w, b):
    def loss(w, b):
        return sum((w * rows[i] + b) ** 2 / 2 for i in range(held))

    return (loss(w + 1, b) - loss(w - 1, b)) / 2, (loss(w, b + 1) - loss(w, b - 1)) / 2


def missing_rows(size, chunks):
    def there(row):
        return any(offset <= row < offset + promised and row - offset < stored for offset, promised, stored in chunks)

    return [row for row in range(size) if not there(row)]


def reduce_scatter(addends):
    total = [sum(addend[i] for addend in addends) for i in range(len(addends[0]))]
    return oracle.chunks(total, len(addends))


FUNCTIONS = {name: globals()[find(name).name] for name in CODE}
