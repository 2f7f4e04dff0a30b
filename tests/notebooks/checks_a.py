"""What notebooks 01 to 05 must show: the text form of their outputs, by the id of the cell."""


def first(text):
    assert "rank=3, coordinate=(1, 1)" in text["five-layout"]
    assert "held by 4 gloo ranks" in text["ranks"]
    assert "just before the first all-gather" in text["read-the-picture-task"]
    assert "rank 0: 0 1 3 2 4" in text["before"]
    assert "rank 0: 0-4" in text["after"]
    assert "no difference" in text["compare"]
    assert "held by 8 gloo ranks" in text["nine"]
    assert "rank 7: 8" in text["nine"]
    stubs(text, "read-the-picture")


def second(text):
    assert "torch.chunk       [0, 1] [2, 3] [4, 5]" in text["chunks"]
    assert "numpy.array_split [0, 1] [2, 3] [4] [5]" in text["chunks"]
    assert "held by 4 gloo ranks" in text["six"]
    assert "rank 3: nothing" in text["six"]
    assert " 9 elements: 2 2 2 2 1 0 0 0" in text["eight"]
    assert "of which padding:           0 0 0 48" in text["six-story"]
    assert "rank 3: 3 4 x 4-6" in text["matrix"]
    stubs(text, "chunk-sizes", "empty-ranks", "split-and-pad")


def third(text):
    assert "rank 1: 2\n   rank 2: 3\n" in text["dp-first"]
    assert "rank 1: 3\n   rank 2: 2\n" in text["tp-first"]
    assert "(_StridedShard(dim=0, sf=2), Shard(dim=0))" in text["held"]
    assert "rank 7 at dp 3, tp 1 holds rows [8]" in text["held"]
    assert "rank 6 has nothing by sharding-order; 8 by left-to-right" in text["readings"]
    assert "part for 9 17 25 33" in text["readings"]
    assert "held by 8 gloo ranks" in text["reported"]
    assert "outer-last: what is held" in text["packed"]
    assert "left-to-right: not what is held" in text["packed"]
    stubs(text, "fsdp-over-tp", "one-label-three-layouts")


def fourth(text):
    assert "held by 4 gloo ranks" in text["five"]
    assert "rank 3: 0 1 3 2 4 #" in text["five"]
    assert "rank 7: # 8" in text["nine"]
    assert "wrong at the step: keep the believed row" in text["six-28"]
    assert "sizes that go wrong here:  2 6 10 14 18 22 26 30" in text["six-28"]
    assert "rank 0: 0-2 # 3 5" in text["six-28"]
    assert "9 elements: exact 672, reverse-order 608" in text["bytes"]
    assert "decodes to no sharding order" in text["bytes"]
    assert "predicted against held: no difference" in text["compared"]
    assert "rank 3: 0-4" in text["compared"]
    stubs(text, "unpad", "unshuffle", "find-the-bug")
    assert "Still the stub" in text["find-the-bug-mend"]


def fifth(text):
    assert "rank 3: ((1,), (6,))" in text["all"]
    assert "rank 6 at (3, 0): shape (0,), offset (9,)" in text["all"]
    assert "an empty shard at 5: 0 1 2 3 4 6 7 8\nan empty shard at 9: 0 1 2 3 4 5 6 7 8" in text["collide"]
    assert "_S(0, 2), _S(0, 2), S(0) cut by c, a, b" in text["orders"]
    assert "rank 6: 4" in text["orders"]
    assert "and back: (50256, 0)" in text["owners"]
    assert "held by 8 gloo ranks" in text["held"]
    assert "[10] on dp=4, tp=2: _S(0, 2), S(0)\n    all answers agree" in text["held"]
    stubs(text, "shape-and-offset", "explicit-order", "owner")


def stubs(text, *names):
    """Every exercise is asked, and its stub is found to be one."""
    for name in names:
        assert text[f"{name}-task"].startswith("#### Exercise: ")
        assert "Still the stub" in text[f"{name}-try"]


CHECKS = {
    "01-start-here": first,
    "02-shards-and-padding": second,
    "03-two-orders": third,
    "04-the-unshuffle": fourth,
    "05-where-am-i": fifth,
}
