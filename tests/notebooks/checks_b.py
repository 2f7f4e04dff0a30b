"""What notebooks 06 to 11 must have put out, by the ids of their cells."""


def real_ranks(text):
    assert "all_gather  each gives int64 [2]; sent by rank: (112, 112, 112, 112, 112, 112, 112, 112)" in text["gather"]
    assert "predicted against held: no difference" in text["nine"]
    assert "rank 7: 8" in text["held"]
    assert "rank 7: 5-8" in text["used"]
    assert text["raises"].startswith("rank 5 of 8 raised ValueError: the batch is empty")
    assert "rank 5 of 8 exited with code 3" in text["dies"]
    assert "rank 5 of 8 did not come to the collective in 2 s" in text["dies"]
    assert text["next-run"].startswith("held by 8 gloo ranks")
    assert "in order: True" in text["next-run"]
    assert_stubs(text, "bytes-sent", "who-is-reported-wrongly")


def training(text):
    assert "(0, 3)" in text["shards"]
    assert text["training"].count("before or after: none") == 2
    apart = [float(line.split()[2].rstrip(";")) for line in text["training"].splitlines() if "largest difference" in line]
    assert max(apart) < 1e-12
    assert "(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)" in text["padding"]
    assert "(40.5, 0.0)" in text["padding"]
    assert text["means"] == "{'mean of 8 means': nan, 'mean of the 5 means there are': 5.4}"
    assert_stubs(text, "local-gradients", "uneven-mean")


def checkpoint(text):
    assert "checkpoint-loses-elements" in text["audit"]
    assert text["stale"].count("<- not what was saved") == 1
    assert "NOT whole: 2 tensors broken, 10 elements missing" in text["map"]
    assert "as it was saved: True" in text["rescued"]
    assert "whole: True | loaded as saved: True" in text["corrected"]
    plain, corrected = text["shifted"].split("with corrected offsets")
    assert "26 27 28 30 31 32 0" in plain
    assert "26 27 28 29 30 31 32" in corrected
    assert_stubs(text, "missing-rows", "safe-width")


def redistribution(text):
    assert text["matmul"].count("the value is [[15.0, 15.0, 15.0], [51.0, 51.0, 51.0]]") == 4
    assert "six ones, Partial            [4.0," in text["ones"]
    assert "relu of the DTensor          [2.0]" in text["ones"]
    assert "own relu  [3.0]" in text["ones"]
    assert "all-reduce, then cut   96 bytes" in text["scatter"]
    assert "reduce-scatter         48 bytes" in text["scatter"]
    assert "as it should be: True | sent by each rank: (48, 48, 48, 48)" in text["real"]
    assert text["table"].count("right: True") == 5
    assert_stubs(text, "reduce-scatter", "byte-budget")


def own_model(text):
    assert "5 errors in 1 of 20 parameters" in text["audit"]
    assert "covered: 20 of 20 parameters placed by the model's own plan" in text["audit"]
    assert "errors on 15 of 64 meshes" in text["sweep"]
    assert "50,259 rows: nothing is wrong" in text["sweep"]
    assert "rank 4 holds (0, 4) and is reported (1, 4)" in text["guard"]
    assert text["record"].startswith("exit status 1")
    assert "recorded on 2 gloo ranks" in text["record"]
    assert "without rank 1" in text["record"]
    assert text["lines"].splitlines()[-1].endswith("dist.all_reduce(mean)")
    assert "rank 1 ended with IndexError" in text["crash"]
    assert "without rank 1" in text["crash"]
    assert_stubs(text, "name-the-parameter", "biggest-collective")


def the_museum(text):
    assert "were seen to be wrong without an error" in text["cards"]
    assert text["run"].count("  here    ") == 5
    assert "only told: too large to run" in text["run"]
    assert "0-2 # 3 5" in text["story"]
    assert "dist.destroy_process_group()" in text["script"]
    assert "diagnose" in text["progress"]
    assert_stubs(text, "diagnose")


def assert_stubs(text, *names):
    """Each exercise is shown, and its stub is told to be one."""
    for name in names:
        assert text[f"{name}-task"].startswith("#### Exercise:")
        assert text[f"{name}-answer"].startswith("**Still the stub:**")


CHECKS = {
    "06-real-ranks": real_ranks,
    "07-training-when-nothing-divides": training,
    "08-the-checkpoint-that-loses-a-row": checkpoint,
    "09-partial-sums-and-redistribution": redistribution,
    "10-debug-your-own-model": own_model,
    "11-the-museum": the_museum,
}
