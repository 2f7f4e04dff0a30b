"""Random questions for the tests of the core, and the way from the oracle's words to shardviz's."""

import itertools
import math
from dataclasses import dataclass

from hypothesis import strategies as st

from shardviz.core.mesh import Mesh
from shardviz.core.placements import Partial, Replicate, Shard, StridedShard
from shardviz.core.spec import Spec

MOST_RANKS = 24


@dataclass(frozen=True)
class Case:
    """A question in the oracle's words: tensor dimensions of `placements` are never negative."""

    shape: tuple
    sizes: tuple
    placements: tuple

    @property
    def spec(self):
        return make_spec(self.shape, self.sizes, self.placements)

    @property
    def copies(self):
        """How many ranks hold each element: one per coordinate on the mesh dimensions that do not cut."""
        return math.prod(n for n, p in zip(self.sizes, self.placements, strict=True) if p[0] in ("R", "P"))

    def spec_from_the_end(self):
        """The same question with every tensor dimension counted from the last."""
        turned = [(p[0], p[1] - len(self.shape), *p[2:]) if p[0] in ("S", "SS") else p for p in self.placements]
        return make_spec(self.shape, self.sizes, turned)


def make_spec(shape, sizes, placements, **more):
    return Spec(shape, Mesh(dict(zip("abcd", sizes, strict=False))), [PLACEMENTS[p[0]](*p[1:]) for p in placements], **more)


PLACEMENTS = {"R": Replicate, "P": Partial, "S": Shard, "SS": StridedShard}


@st.composite
def cases(draw):
    """Any tensor of 0 to 3 dimensions (empty ones too) on any mesh of 1 to 4, with any placements."""
    shape = tuple(draw(st.lists(st.integers(0, 13), max_size=3)))
    sizes = ()
    for _ in range(draw(st.integers(1, 4))):
        sizes += (draw(st.integers(1, max(1, min(4, MOST_RANKS // math.prod(sizes))))),)
    return Case(shape, sizes, tuple(draw(_placement(len(shape), sizes[mesh_dim + 1 :])) for mesh_dim in range(len(sizes))))


@st.composite
def decodable_cases(draw):
    """A tensor whose cuts have an order of cutting: the placements that write this order down."""
    case = draw(cases())
    placements = list(case.placements)
    for dim in range(len(case.shape)):
        cuts = [m for m, p in enumerate(placements) if p[0] in ("S", "SS") and p[1] == dim]
        order = draw(st.permutations(cuts))
        for place, mesh_dim in enumerate(order):
            factor = math.prod(case.sizes[m] for m in order[:place] if m > mesh_dim)
            placements[mesh_dim] = ("S", dim) if factor == 1 else ("SS", dim, factor)
    return Case(case.shape, case.sizes, tuple(placements))


def _placement(ndim, later):
    whole = st.sampled_from([("R",), ("P", "sum"), ("P", "max")])
    if not ndim:
        return whole
    dims = st.integers(0, ndim - 1)
    products = {math.prod(chosen) for count in range(len(later) + 1) for chosen in itertools.combinations(later, count)}
    factors = st.one_of(st.sampled_from(sorted(products)), st.integers(1, 7))
    strided = st.tuples(st.just("SS"), dims, factors)
    return st.one_of(st.tuples(st.just("S"), dims), strided, strided, whole)


def listed(runs):
    """Runs as the list of their indices, with None for padding."""
    return [None if start < 0 else i for start, stop in runs for i in range(start, stop)]
