"""Every exercise: its targets are the oracle's, its stub fails, its solution passes, and wrong answers meet a sentence."""

import time

import pytest

from shardviz import lessons
from shardviz.checks.museum import cards
from shardviz.core.spec import parse
from shardviz.lessons.catalogue import IDS, NOTEBOOKS, find
from shardviz.lessons.exercises.diagnose import AILMENTS
from shardviz.lessons.values import plain, same
from tests import oracle
from tests.lessons import solved
from tests.lessons.solved import ASK, CODE, SEEDS

each_exercise = pytest.mark.parametrize("name", IDS)
each_function = pytest.mark.parametrize("name", CODE)
each_question = pytest.mark.parametrize("name", ASK)


def mesh_of(spec):
    spec = parse(spec)
    return spec.shape[0], *spec.mesh.sizes


# The targets.


@each_function
@pytest.mark.parametrize("seed", SEEDS)
def test_targets_of_functions_are_the_oracles(name, seed):
    exercise = find(name)
    for case in exercise.cases(seed):
        assert same(plain(exercise.right(*case)), plain(solved.FUNCTIONS[name](*case))), case


@each_function
def test_the_edges_are_among_the_cases(name):
    cases = find(name).cases("0")
    assert len(cases) >= 30
    assert cases[len(find(name).examples) :] == sorted(cases[len(find(name).examples) :], key=_numbers)


def _numbers(value):
    if isinstance(value, tuple):
        return sum(map(_numbers, value))
    if isinstance(value, list):
        return len(value) + sum(_numbers(item) for item in value if isinstance(item, list))
    return value or 0


@pytest.mark.parametrize("seed", SEEDS)
class TestTargetsOfQuestions:
    """The answers to questions, from the oracle."""

    def test_read_the_picture(self, seed):
        given = find("read-the-picture").given(seed)
        n, dp, tp = mesh_of(given["spec"])
        placements = (("SS", 0, tp), ("S", 0))
        held = oracle.holdings((n,), (dp, tp), placements, "sharding-order")
        events = list(oracle.reconstruction((n,), (dp, tp), placements, held))
        padded = [axes[0] for axes in events[1].buffers.values()]
        assert events[1].what == "pad"
        assert find("read-the-picture").right(given) == {
            "holder": next(rank for rank, part in enumerate(padded) if given["element"] in part),
            "padded": {rank for rank, part in enumerate(padded) if None in part},
            "empty": {rank for rank, part in enumerate(padded) if set(part) <= {None}},
        }

    def test_empty_ranks(self, seed):
        given = find("empty-ranks").given(seed)
        assert find("empty-ranks").right(given) == [solved.chunk_sizes(*pair).count(0) for pair in given]

    def test_one_label_three_layouts(self, seed):
        given = find("one-label-three-layouts").given(seed)
        n, dp, tp = mesh_of(given["spec"])
        for reading, rank in find("one-label-three-layouts").right(given).items():
            assert given["element"] in solved.parts(n, dp, tp, reading)[rank]

    def test_find_the_bug(self, seed):
        given = find("find-the-bug").given(seed)
        found = find("find-the-bug").right(given)
        dp, tp = given["dp"], given["tp"]
        for size in range(found + 1):
            pieces = given["shards"](size, dp, tp)
            assert [[i for i in piece if i is not None] for piece in pieces] == solved.parts(size, dp, tp)
            assert (given["reconstruct"](pieces, size, dp, tp) == list(range(size))) == (size < found)

    def test_who_is_reported_wrongly(self, seed):
        spec = find("who-is-reported-wrongly").given(seed)
        assert find("who-is-reported-wrongly").right(spec) == solved.reported_wrongly(*mesh_of(spec)) != set()

    def test_who_is_reported_wrongly_is_what_the_installed_torch_says(self, seed):
        from shardviz.tensors.reported import shape_and_offset_at

        spec = find("who-is-reported-wrongly").given(seed)
        n, dp, tp = mesh_of(spec)
        ask, wrong = shape_and_offset_at(parse(spec)), set()
        for rank, part in enumerate(solved.parts(n, dp, tp)):
            shape, offset = ask(divmod(rank, tp))
            if (len(part), (part or [n])[0]) != (shape[0], offset[0]):
                wrong.add(rank)
        assert find("who-is-reported-wrongly").right(spec) == wrong

    def test_safe_width(self, seed):
        given = find("safe-width").given(seed)
        for (size, dp, tp), width in zip(given, find("safe-width").right(given), strict=True):
            assert size < width <= -(-size // tp) * tp
            assert [w for w in range(size, width + 1) if not solved.reported_wrongly(w, dp, tp)] == [width]

    def test_name_the_parameter(self, seed):
        given = find("name-the-parameter").given(seed)
        wrong = set()
        for name, spec in given.items():
            shape, sizes = parse(spec).shape, parse(spec).mesh.sizes
            if "_S" in spec and solved.reported_wrongly(shape[0], *sizes):
                wrong.add(name)
        assert find("name-the-parameter").right(given) == wrong != set()

    def test_biggest_collective(self, seed):
        given = find("biggest-collective").given(seed)
        sent = {}
        for row in given:
            n, k = 1, row["ranks"]
            for size in row["shape"]:
                n *= size
            parts = {"all_gather": (k - 1) * n, "reduce_scatter": n - n // k, "all_reduce": 2 * (k - 1) * -(-n // k)}
            sent[row["line"]] = parts[row["collective"]] * row["itemsize"] * row["calls"]
        line = max(sent, key=sent.get)
        assert find("biggest-collective").right(given) == {"line": line, "bytes": sent[line]}

    def test_byte_budget(self, seed):
        given = find("byte-budget").given(seed)
        assert given["least"] <= given["budget"] < given["direct"]
        verdict = find("byte-budget").judge(find("byte-budget").right(given), seed)
        assert (verdict.state, verdict.beaten) == ("right", True)
        assert find("byte-budget").judge([given["target"]], seed).state == "not yet"

    def test_diagnose(self, seed):
        given = find("diagnose").given(seed)
        causes = {one.symptom: one.cause for one in AILMENTS}
        for number, letter in find("diagnose").right(given).items():
            assert given["causes"][letter] == causes[given["symptoms"][number]]


def test_every_ailment_has_a_card_in_the_museum():
    assert {one.card for one in AILMENTS} <= {card.id for card in cards()}
    assert len({one.cause for one in AILMENTS}) == len({one.symptom for one in AILMENTS}) == len(AILMENTS)


# The answers.


@each_exercise
def test_its_stub_fails_kindly(name):
    cell = {}
    exec(lessons.stub(name), cell)
    handed = cell.get(find(name).name) or cell.get("answer") or cell.get("path") or cell.get("smallest", ...)
    verdict = lessons.check(name, handed)
    assert not verdict
    assert verdict.finding.state == "stub"
    assert str(verdict).startswith("**Still the stub:**")
    assert lessons.progress().words.count("begun") == 0  # looking at a stub is no attempt


@each_exercise
@pytest.mark.parametrize("seed", SEEDS)
def test_its_solution_passes(name, seed):
    lessons.start(seed=seed)
    verdicts = [lessons.check(name, answer) for answer in solved.answers_of(name, seed)]
    assert verdicts[-1], verdicts[-1]
    assert [verdict.finding.state for verdict in verdicts[:-1]] == ["so far"] * (len(verdicts) - 1)
    assert find(name).done in str(verdicts[-1])


@each_exercise
@pytest.mark.parametrize("seed", SEEDS)
def test_what_people_get_wrong_fails_and_is_told(name, seed):
    lessons.start(seed=seed)
    exercise = find(name)
    sentences = {mistake.sentence for mistake in exercise.mistakes}
    for mistake in exercise.mistakes:
        verdict = lessons.check(name, mistake.answer if name in CODE else mistake.answer(lessons.given(name)))
        assert verdict.finding.state == "not yet", mistake.sentence
        assert verdict.finding.advice in sentences


@each_function
def test_hard_coding_the_visible_cases_fails(name):
    exercise = find(name)
    known = {repr(case): exercise.right(*case) for case in exercise.examples}
    fallback = next(iter(known.values()))
    verdict = lessons.check(name, lambda *case: known.get(repr(case), fallback))
    assert verdict.finding.state == "not yet"
    assert verdict.finding.call not in [f"{exercise.name}{case}" for case in exercise.examples]


@each_question
def test_seeds_pose_different_questions(name):
    posed = [str(find(name).given(str(seed))).partition(" at 0x")[0] + find(name).task(str(seed)) for seed in range(12)]
    assert len(set(posed)) >= 5
    assert find(name).task("7") == find(name).task("7")


@each_exercise
def test_its_text_is_complete(name):
    exercise = find(name)
    assert exercise.notebook in NOTEBOOKS
    assert len(exercise.hints) == 3
    shown = lessons.show(name)
    assert exercise.title in shown.words
    assert "{" not in shown.words.replace("{(", "").split("```")[0] or name == "safe-width"
    assert "<h4>" in shown._repr_html_()


@each_exercise
def test_no_answer_makes_it_raise(name):
    odd = [0, -1, 1.5, float("nan"), "x", "", [], {}, set(), [[]], [None], [...], {"a": ...}, object(), [1, 2, 3], [[1], 2]]
    odd += [{(0, 0): 1}, {(0, 0): [1]}, b"x", range(3), True, ["R, R"], ["?"], [10**30] * 3, {1: "A"}, iter([1]), type]
    functions = [lambda *_, answer=answer: answer for answer in odd]
    for handed in [*functions, 3, "x"] if name in CODE else [*odd, functions[0]]:
        verdict = lessons.check(name, handed)
        assert not verdict
        assert verdict._repr_html_()
        assert str(verdict)


# Wrong answers worth offering, as people would write them: each meets a sentence that helps.


def even_spread(size, ranks):
    return [size // ranks + (1 if i < size % ranks else 0) for i in range(ranks)]


def only_the_last_is_short(size, ranks):
    full = -(-size // ranks)
    return [full] * (ranks - 1) + [max(0, size - full * (ranks - 1))]


def left_to_right(elements, dp, tp):
    held = oracle.holdings((len(elements),), (dp, tp), (("SS", 0, tp), ("S", 0)), "left-to-right")
    return {place: [elements[i] for i in axes[0]] for place, axes in held.items()}


def dp_then_tp(elements, dp, tp):
    return {(d, t): oracle.chunks(oracle.chunks(elements, dp)[d], tp)[t] for d in range(dp) for t in range(tp)}


def no_unpad(pieces, size, dp, tp):
    return [e for t in range(tp) for d in range(dp) for e in pieces[d * tp + t]]


def no_unshuffle(pieces, size, dp, tp):
    return [e for piece, part in zip(pieces, solved.parts(size, dp, tp), strict=True) for e in piece[: len(part)]]


def trim_at_the_end(gathered, sizes):
    return gathered[: sum(sizes)]


def mean_of_means(shards):
    means = [sum(shard) / len(shard) for shard in shards if shard]
    return sum(means) / len(means)


def own_chunk(addends):
    return [oracle.chunks(addend, len(addends))[rank] for rank, addend in enumerate(addends)]


def believe_the_metadata(size, chunks):
    promised = {row for offset, count, _ in chunks for row in range(offset, offset + count)}
    return sorted(set(range(size)) - promised)


@pytest.mark.parametrize(
    ("name", "answer", "call", "word"),
    [
        ("chunk-sizes", even_spread, "chunk_sizes(5, 4)", "even spread"),
        ("chunk-sizes", only_the_last_is_short, "chunk_sizes(5, 4)", "only the last rank"),
        ("chunk-sizes", lambda size, ranks: {5: [2, 2, 1, 0], 6: [2, 2, 2, 0]}.get(size, []), "chunk_sizes(0, 1)", "1 entry"),
        ("fsdp-over-tp", left_to_right, "", "left-to-right"),
        ("fsdp-over-tp", dp_then_tp, "", "by dp first"),
        ("unpad", trim_at_the_end, "", "Torch 2.8, too, cut off the end alone"),
        ("unshuffle", no_unpad, "", "forget no unpad"),
        ("unshuffle", no_unshuffle, "", "what the unshuffle is for"),
        ("uneven-mean", mean_of_means, "", "means do not"),
        ("reduce-scatter", own_chunk, "", "own addend"),
        ("missing-rows", believe_the_metadata, "", "believe the promises"),
        ("owner", lambda element, size, dp, tp: divmod(element, -(-size // (dp * tp))), "", "two cuts"),
        ("bytes-sent", lambda size, itemsize, ranks: ranks * -(-size // ranks) * itemsize, "", "sends nothing to itself"),
    ],
)
def test_a_wrong_answer_meets_a_sentence_that_helps(name, answer, call, word):
    finding = lessons.check(name, answer).finding
    assert finding.state == "not yet"
    assert word in finding.advice
    assert finding.call.startswith(call)
    assert finding.picture or name in ("uneven-mean", "bytes-sent")


def test_the_picture_of_a_wrong_answer_outlines_what_differs():
    finding = lessons.check("chunk-sizes", even_spread).finding
    assert "rank 1: target 2 3; yours 2" in finding.picture.text
    red = [mark for mark in finding.picture.scene.marks if getattr(mark, "stroke", None) == "red"]
    assert len([mark for mark in red if mark.dashed]) == 1  # 3 is missing on rank 1
    assert len(red) >= 3


def test_a_target_to_beat_is_told_and_can_be_beaten():
    def with_lists(size, cuts, coordinate):
        items = list(range(size))
        for count, place in zip(cuts, coordinate, strict=True):
            full = -(-len(items) // count)
            items = items[place * full : (place + 1) * full]
        return len(items), items[0] if items else size

    began = time.monotonic()
    slow = lessons.check("shape-and-offset", with_lists)
    assert time.monotonic() - began < 20  # eight trillion elements are not listed
    assert slow
    assert "Target to beat" in str(slow)
    fast = lessons.check("shape-and-offset", solved.solution_of("shape-and-offset"))
    assert (fast.finding.beaten, slow.finding.beaten) == (True, False)
