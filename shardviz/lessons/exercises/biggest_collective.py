"""Exercise: which line of a program sends the most?"""

from __future__ import annotations

from random import Random
from typing import Any

from shardviz.core.recording import Call, Piece
from shardviz.lessons.exercise import Mistake
from shardviz.lessons.questions import Ask

Program = list[dict[str, Any]]


def pose(random: Random) -> Program:
    """Five lines of a training step, of which one sends the most; it is seldom the one with the largest tensor."""
    while True:
        width, layers, dp, tp = (
            random.choice([64, 128, 256]),
            random.choice([4, 8, 12]),
            random.choice([2, 4]),
            random.choice([2, 4]),
        )
        lines = sorted(random.sample(range(20, 80), 5))
        program = [
            _line(lines[0], "all_gather", "bfloat16", 2, [width * width // dp], dp, 2 * layers),
            _line(lines[1], "all_reduce", "bfloat16", 2, [random.choice([2, 4, 8]), width], tp, 4 * layers),
            _line(lines[2], "reduce_scatter", "float32", 4, [width * width], dp, layers),
            _line(
                lines[3],
                "all_gather",
                "float32",
                4,
                [random.choice([1, 2, 4]) * width * width // dp],
                dp,
                random.choice([1, layers]),
            ),
            _line(lines[4], "all_reduce", "float32", 4, [1], dp * tp, random.choice([1, 100])),
        ]
        sent = sorted(map(bytes_of, program))
        if sent[-1] > 1.15 * sent[-2]:
            return program


def _line(number: int, name: str, dtype: str, itemsize: int, shape: list[int], ranks: int, calls: int) -> dict[str, Any]:
    return {
        "line": number,
        "collective": name,
        "dtype": dtype,
        "itemsize": itemsize,
        "shape": shape,
        "ranks": ranks,
        "calls": calls,
    }


def bytes_of(row: dict[str, Any]) -> int:
    """What one rank sends in all calls of a line, by the core's count."""
    piece = Piece(tuple(row["shape"]), row["dtype"], row["itemsize"])
    calls: int = row["calls"]
    return calls * Call(row["collective"], (piece,), (), 0.0).sent(0, row["ranks"])


def right(given: Program) -> dict[str, int]:
    """The line that sends the most, and how much."""
    most = max(given, key=bytes_of)
    return {"line": most["line"], "bytes": bytes_of(most)}


def largest_tensor(program: Program) -> dict[str, Any]:
    """The line with the largest tensor in one call."""
    return max(program, key=lambda row: row["itemsize"] * _numel(row))


def _numel(row: dict[str, Any]) -> int:
    return Piece(tuple(row["shape"]), row["dtype"], row["itemsize"]).numel


def words(given: Program) -> dict[str, str]:
    """The recording as a table."""
    rows = [
        f"| train.py:{r['line']} | {r['collective']} | {r['dtype']} {r['shape']} | {r['ranks']} | {r['calls']} |" for r in given
    ]
    head = "| line | collective | each rank gives | ranks in the group | calls per step |\n|---|---|---|---|---|\n"
    return {"table": head + "\n".join(rows)}


EXERCISE = Ask(
    id="biggest-collective",
    notebook=10,
    title="which line sends the most?",
    text="""
A training step was recorded. These are its collectives, by the line of the program that led to them:

{table}

What does one rank send in a call, in a group of k ranks? In an **all_gather**, what it gives to each of the k - 1
others. In a **reduce_scatter**, all but its own k-th part of what it gives. In an **all_reduce** (a ring), 2 × (k - 1)
k-th parts of what it gives, rounded up to whole elements. bfloat16 has 2 bytes, float32 has 4.

- `"line"`: the line for which a rank sends the most **in a whole step**, as a number without the file's name;
- `"bytes"`: how many bytes one rank sends for it in a step.
""",
    machine="""
`lessons.given("biggest-collective")` has the table as a list of dicts.
""",
    stub="""
answer = {
    "line": ...,  # a number
    "bytes": ...,  # per rank and step
}
""",
    hints=(
        "Bytes per step are four factors: bytes of an element, elements, what the collective makes of them, and "
        "calls. The largest tensor need not win.",
        "An all_gather gives a **part** and sends it k - 1 times; a reduce_scatter gives the **whole** and sends "
        "all but a k-th of it. Their bytes per call are alike.",
        "all_gather: `(k - 1) * n * itemsize`; reduce_scatter: `(n - n // k) * itemsize`; all_reduce: `2 * (k - "
        "1) * -(-n // k) * itemsize`. Each times its calls.",
    ),
    pose=pose,
    words=words,
    right=right,
    done="Look at bytes per step, not at the size of a tensor: many calls of a small one can outweigh a large one.",
    mistakes=(
        Mistake(
            lambda given: {"line": (row := largest_tensor(given))["line"], "bytes": bytes_of(row)},
            "That is the line with the largest tensor. Multiply by its calls, and compare with the others.",
        ),
        Mistake(
            lambda given: {"line": (row := max(given, key=lambda r: r["calls"]))["line"], "bytes": bytes_of(row)},
            "That is the line with the most calls. Each of them may be small.",
        ),
        Mistake(
            lambda given: right(given) | {"bytes": right(given)["bytes"] // max(given, key=bytes_of)["calls"]},
            "The line is right. The bytes are those of one call; a step has more of them.",
        ),
        Mistake(
            lambda given: right(given) | {"bytes": (row := max(given, key=bytes_of))["calls"] * row["itemsize"] * _numel(row)},
            "The line is right. The bytes are what a rank gives; what it sends depends on the collective and on "
            "the size of the group.",
        ),
    ),
)
