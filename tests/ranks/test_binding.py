"""Which device and backend each rank gets, case by case."""

import re
import sys
from pathlib import Path

import pytest

from shardviz.core.errors import RequestError
from shardviz.ranks.binding import TorchBuild, decide, installed_torch, loaded_nccl, usable_gpus

CUDA = TorchBuild("2.13.0+cu130", "13.0")
CPU = TorchBuild("2.13.0+cpu", None)
FOUR = ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("n", "gpus", "backend", "devices", "chosen", "on"),
    [
        (4, (), "auto", None, "gloo", "cpu cpu cpu cpu"),
        (4, FOUR, "auto", None, "nccl", "cuda:0 cuda:1 cuda:2 cuda:3"),
        (2, FOUR, "auto", None, "nccl", "cuda:0 cuda:1"),
        (1, ("0",), "auto", None, "nccl", "cuda:0"),
        (4, ("0",), "auto", None, "gloo", "cpu cpu cpu cpu"),
        (4, FOUR, "gloo", None, "gloo", "cpu cpu cpu cpu"),
        (4, FOUR, "nccl", None, "nccl", "cuda:0 cuda:1 cuda:2 cuda:3"),
        (2, FOUR, "auto", ["cuda:3", "cuda:1"], "nccl", "cuda:3 cuda:1"),
        (2, FOUR, "auto", ["cpu", "cpu"], "gloo", "cpu cpu"),
    ],
)
def test_possible_requests(n, gpus, backend, devices, chosen, on):
    binding = decide(n, gpus, backend, devices, torch=CUDA)
    assert binding.backend == chosen
    assert " ".join(binding.devices) == on
    assert len(binding.environments) == n


@pytest.mark.parametrize(
    ("n", "gpus", "backend", "devices", "torch", "says"),
    [
        (0, (), "auto", None, CUDA, "at least 1"),
        (2, (), "mpi", None, CUDA, "'mpi'"),
        (2, (), "nccl", None, CUDA, "no GPU"),
        (4, ("0", "1"), "nccl", None, CUDA, "4 ranks and 2 GPUs"),
        (2, FOUR, "nccl", None, CPU, "without CUDA"),
        (2, FOUR, "auto", ["cuda:0"], CUDA, "1 devices for 2 ranks"),
        (2, FOUR, "auto", ["cuda:0", "cuda:0"], CUDA, "two ranks on one card"),
        (2, FOUR, "auto", ["cuda:0", "cpu"], CUDA, "mix"),
        (1, FOUR, "auto", ["cuda:4"], CUDA, "4 GPUs"),
        (1, FOUR, "auto", ["gpu0"], CUDA, "'gpu0'"),
        (1, FOUR, "auto", ["cuda:0"], CPU, "without CUDA"),
        (1, FOUR, "gloo", ["cuda:0"], CUDA, "gloo"),
        (1, FOUR, "nccl", ["cpu"], CUDA, "gloo"),
    ],
)
def test_impossible_requests_say_why(n, gpus, backend, devices, torch, says):
    with pytest.raises(RequestError, match=says):
        decide(n, gpus, backend, devices, torch=torch)


OLD, NEW = (2, 29, 7), (2, 30, 7)


@pytest.mark.parametrize(
    ("n", "gpus", "backend", "devices", "chosen", "on", "ctas"),
    [
        (4, ("0",), "auto", None, "nccl", "cuda:0 cuda:0 cuda:0 cuda:0", "2 2 2 2"),
        (4, ("0", "1"), "nccl", None, "nccl", "cuda:0 cuda:0 cuda:1 cuda:1", "4 4 4 4"),
        (3, ("0", "1"), "auto", None, "nccl", "cuda:0 cuda:0 cuda:1", "4 4 -"),
        (16, ("0",), "auto", None, "nccl", " ".join(["cuda:0"] * 16), " ".join(["1"] * 16)),
        (3, FOUR, "auto", ["cuda:2", "cuda:2", "cuda:0"], "nccl", "cuda:2 cuda:2 cuda:0", "4 4 -"),
        (4, FOUR, "auto", None, "nccl", "cuda:0 cuda:1 cuda:2 cuda:3", "- - - -"),
        (4, ("0",), "gloo", None, "gloo", "cpu cpu cpu cpu", "- - - -"),
        (4, (), "auto", None, "gloo", "cpu cpu cpu cpu", "- - - -"),
    ],
)
def test_ranks_that_share_cards(n, gpus, backend, devices, chosen, on, ctas):
    binding = decide(n, gpus, backend, devices, share_gpus=True, nccl=NEW, torch=CUDA)
    assert (binding.backend, " ".join(binding.devices)) == (chosen, on)
    assert " ".join(env.get("NCCL_MAX_CTAS", "-") for env in binding.environments) == ctas
    for environment in binding.environments:
        shares = "NCCL_MAX_CTAS" in environment
        assert environment.get("NCCL_MULTI_RANK_GPU_ENABLE") == ("1" if shares else None)
        assert environment.get("NCCL_NVLS_ENABLE") == ("0" if shares else None)


@pytest.mark.parametrize(
    ("gpus", "devices", "nccl", "says"),
    [
        (("0",), None, OLD, r"needs NCCL 2\.30 or later, and the NCCL in use is 2\.29\.7"),
        (("0",), None, None, "no NCCL library was found"),
        (FOUR, ["cuda:1", "cuda:1"], OLD, r"2\.29\.7"),
    ],
)
def test_sharing_is_refused_with_the_version_found(gpus, devices, nccl, says):
    with pytest.raises(RequestError, match=says):
        decide(2, gpus, "auto", devices, share_gpus=True, nccl=nccl, torch=CUDA)


def test_without_need_no_version_is_asked_of_nccl():
    assert decide(2, FOUR, share_gpus=True, nccl=OLD, torch=CUDA).backend == "nccl"


def test_the_version_of_the_loaded_nccl():
    found = loaded_nccl()
    assert found is None or found > (2, 0, 0)


def test_each_rank_sees_its_own_card():
    binding = decide(2, ("GPU-a", "GPU-b"), torch=CUDA)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in binding.environments] == ["GPU-a", "GPU-b"]
    assert binding.group == "cpu:gloo,cuda:nccl"


def test_gloo_ranks_see_no_card():
    binding = decide(2, ("0",), torch=CUDA)
    assert [env["CUDA_VISIBLE_DEVICES"] for env in binding.environments] == ["", ""]
    assert binding.group == "gloo"


@pytest.mark.parametrize(
    ("n", "gpus", "backend", "torch", "says"),
    [
        (4, ("0",), "auto", CUDA, "4 ranks and 1 GPU, and NCCL refuses"),
        (2, FOUR, "auto", CPU, r"2\.13\.0\+cpu is built without CUDA"),
        (4, (), "auto", CUDA, None),
        (4, FOUR, "gloo", CUDA, None),
        (4, FOUR, "auto", CUDA, None),
    ],
)
def test_a_notice_where_gpus_stay_unused(n, gpus, backend, torch, says):
    notice = decide(n, gpus, backend, torch=torch).notice
    assert notice is None if says is None else re.search(says, notice or "")


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        (None, ("0", "1", "2")),
        ("", ()),
        ("-1", ()),
        ("2,0", ("2", "0")),
        ("1, GPU-abc", ("1", "GPU-abc")),
        ("0,7,1", ("0",)),
    ],
)
def test_gpus_are_counted_as_cuda_counts_them(tmp_path: Path, visible, gpus):
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert usable_gpus(environment, tmp_path) == gpus


def test_the_installed_torch_is_read_without_importing_it():
    before = "torch" in sys.modules
    build = installed_torch()
    assert ("torch" in sys.modules) == before
    import torch

    assert (build.version, build.cuda) == (torch.__version__, torch.version.cuda)
