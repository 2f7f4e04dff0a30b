"""The layout arithmetic on real tensors and process groups: one function per file, all of them found here.

`split` and `cut` work in one process, on a whole tensor; `scatter`, `reconstruct` and `reshard` are called by every rank of a
mesh at the same time. All take any dtype, any placements and tensors of any layout in memory, and give contiguous results.
"""

from shardviz.tensors.reconstruction import reconstruct
from shardviz.tensors.resharding import reshard
from shardviz.tensors.scattering import scatter
from shardviz.tensors.splitting import Split, cut, split

__all__ = ["Split", "cut", "reconstruct", "reshard", "scatter", "split"]
