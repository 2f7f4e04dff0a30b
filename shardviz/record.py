"""Records the collectives of a program that knows nothing of shardviz.

    torchrun --nproc-per-node 4 -m shardviz.record [--out DIR] [--values N] train.py [arguments]

Each rank leaves a file of JSON lines in the directory, whole up to the last line even if the program is killed;
`shardviz.load(directory)` puts them together.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from shardviz.ranks.faults import first_sentence

__all__ = ["main"]

DIRECTORY = "shardviz-record"
MOST_VALUES = 64
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a program as Python itself would, and record it."""
    parser = argparse.ArgumentParser("python -m shardviz.record", description="Record the collectives of a training script.")
    parser.add_argument("--out", type=Path, default=Path(DIRECTORY), help="directory of the records (%(default)s)")
    parser.add_argument(
        "--values",
        type=int,
        default=MOST_VALUES,
        metavar="N",
        help="record the values of tensors of at most N elements (%(default)s); 0 records none",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, not a file")
    parser.add_argument("program", help="the script or module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it is given")
    asked = parser.parse_args(arguments)
    if not asked.module and not Path(asked.program).is_file():
        parser.error(f"there is no script {asked.program}")
    rank, world = _from_environment(_RANK, 0), _from_environment(_WORLD, 1)
    try:
        file = _own_file(asked.out, rank, world)
    except OSError as error:
        parser.error(f"the record cannot be written to {asked.out}: {error.strerror}")
    # torch is imported by the program anyway.
    from shardviz.ranks.line_file import LineFile
    from shardviz.ranks.listening import listening
    from shardviz.ranks.tape import Tape

    def fail(error: OSError) -> None:
        print(f"shardviz: the record {file} ends here: {error.strerror}", file=sys.stderr)

    tape = Tape(LineFile(str(file), fail), rank, world, os.path.basename(asked.program), asked.values)
    owner = os.getpid()
    end = ""
    try:
        with listening(tape):
            _run(asked.program, asked.module, asked.arguments)
    except SystemExit as ended:
        end = f"exit status {ended.code}" if ended.code else ""
        raise
    except BaseException as raised:
        end = first_sentence(f"{type(raised).__name__}: {raised}".strip(": "))
        raise
    finally:
        if os.getpid() == owner:  # a child that the program forked comes by here too
            tape.end(end)


def _run(program: str, is_module: bool, arguments: Sequence[str]) -> None:
    sys.argv = [program, *arguments]
    if is_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        if not sys.flags.safe_path:
            sys.path[0] = str(Path(program).resolve().parent)
        runpy.run_path(program, run_name="__main__")


def _own_file(directory: Path, rank: int, world: int) -> Path:
    """The file of this rank; those that a run of more ranks left are removed, for they are no part of this one."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("rank-*.jsonl"):
        match = re.fullmatch(r"rank-(\d+)", old.stem)
        if match and int(match[1]) >= world:
            old.unlink(missing_ok=True)
    return directory / f"rank-{rank}.jsonl"


def _from_environment(names: Sequence[str], default: int) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), default)


if __name__ == "__main__":
    main()
