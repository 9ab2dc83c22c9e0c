"""The generators: every maze is sound, fixed by (seed, index) alone, and distributed as its algorithm promises."""

import subprocess
import sys
from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sera_maze.envs.generating import generate
from sera_maze.envs.generating.distinct import log_spanning_trees
from sera_maze.envs.generating.generate import generate_layouts, generate_until_failure
from sera_maze.envs.generating.kernels import fill_mazes
from sera_maze.envs.generating.spec import ALGORITHMS, ENDPOINTS, MazeSpec
from sera_maze.envs.ground.random_bits import nth_prompt, prompt_key
from sera_maze.envs.layouts.distances import shortest_lengths
from sera_maze.envs.layouts.layout import MazeLayout, digest_content, digest_of

PERFECT = ("prim", "dfs", "kruskal", "wilson", "division")
sides = st.integers(1, 12).map(lambda n: 2 * n + 1)
sizes = st.tuples(sides, sides).filter(lambda size: size != (3, 3))
seeds = st.integers(0, 2**64 - 1)


def reached(walls, start):
    """Squares reachable from start, by a breadth-first search in plain Python."""
    seen, queue = {start}, deque([start])
    while queue:
        r, c = queue.popleft()
        for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if not walls[cell] and cell not in seen:
                seen.add(cell)
                queue.append(cell)
    return seen


@given(size=sizes, algorithm=st.sampled_from(ALGORITHMS), seed=seeds, index=st.integers(0, 2**40))
@settings(max_examples=200, deadline=None)
def test_every_maze_is_closed_and_connected(size, algorithm, seed, index):
    walls, start, goal = (a[0] for a in generate_layouts(1, size, algorithm, seed, first_index=index))
    assert walls[0].all()
    assert walls[-1].all()
    assert walls[:, 0].all()
    assert walls[:, -1].all()
    assert not walls[1::2, 1::2].any()
    assert reached(walls, (1, 1)) == set(map(tuple, np.argwhere(~walls)))
    assert start.tolist() == [1, 1]
    assert goal.tolist() == [size[0] - 2, size[1] - 2]
    MazeLayout(walls, start.tolist(), goal.tolist())


@given(size=sizes, algorithm=st.sampled_from(PERFECT), seed=seeds)
@settings(max_examples=100, deadline=None)
def test_perfect_mazes_are_spanning_trees(size, algorithm, seed):
    walls = generate_layouts(3, size, algorithm, seed).walls
    cells = (size[0] // 2) * (size[1] // 2)
    assert (~walls).sum(axis=(1, 2)).tolist() == [2 * cells - 1] * 3


@given(
    size=sizes, algorithm=st.sampled_from(ALGORITHMS), seed=seeds, braid=st.sampled_from([0.0, 0.5, 1.0]),
    openings=st.integers(0, 20), endpoints=st.sampled_from(ENDPOINTS[:3]), count=st.integers(1, 40),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_a_maze_depends_on_seed_and_index_alone(size, algorithm, seed, braid, openings, endpoints, count):
    options = {"braid": braid, "openings": openings, "endpoints": endpoints}
    many = generate_layouts(count, size, algorithm, seed, **options)
    alone = generate_layouts(1, size, algorithm, seed, first_index=count - 1, **options)
    for part, one in zip(many, alone, strict=True):
        np.testing.assert_array_equal(part[-1], one[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_threads_do_not_change_mazes(algorithm):
    one = generate_layouts(1000, (9, 13), algorithm, 5, num_threads=1)
    three = generate_layouts(1000, (9, 13), algorithm, 5, num_threads=3)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


DIGESTS = {
    "prim": "1b9964d589692f8d",
    "dfs": "d0d4b22990ddee6d",
    "kruskal": "f7d53f2a9f56827c",
    "wilson": "2174aacecab2569d",
    "division": "78876b0b59ed00d1",
    "rooms": "73010737fec86179",
}
DIGEST_CODE = """
import hashlib
from sera_maze.envs.generating.generate import generate_layouts
from sera_maze.envs.generating.spec import ALGORITHMS
from sera_maze.envs.layouts.layout import digest_content
for algorithm in ALGORITHMS:
    mazes = generate_layouts(300, (17, 21), algorithm, 2**63 + 5, braid=0.3, openings=2, endpoints="random")
    print(algorithm, hashlib.blake2b(b"".join(digest_content(*mazes)), digest_size=8).hexdigest())
"""


def test_mazes_are_pinned_across_processes():
    """A change here changes every published maze: it needs a new env version and a note in CHANGELOG."""
    done = subprocess.run([sys.executable, "-c", DIGEST_CODE], capture_output=True, text=True, check=True)
    assert dict(line.split() for line in done.stdout.splitlines()) == DIGESTS


def test_global_random_state_is_untouched():
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generate_layouts(10, 9)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def trees_of_3x3(algorithm, count):
    return Counter(digest_content(generate_layouts(count, 7, algorithm, seed=11).walls))


def test_wilson_is_uniform_over_the_192_trees():
    counts = trees_of_3x3("wilson", 10_000)
    assert len(counts) == 192
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_the_chi_square_test_would_see_kruskals_bias():
    assert stats.chisquare(list(trees_of_3x3("kruskal", 10_000).values())).pvalue < 1e-12


@pytest.mark.parametrize("algorithm", ["prim", "kruskal", "wilson"])
def test_all_192_trees_occur(algorithm):
    assert len(trees_of_3x3(algorithm, 20_000)) == 192


def depth_first_trees(rows, columns):
    """All trees that a depth-first search of the grid of cells can leave, from any root, by trying every choice."""
    cells = [(r, c) for r in range(rows) for c in range(columns)]
    trees = set()

    def search(stack, seen, edges):
        while stack:
            r, c = stack[-1]
            free = [n for n in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)) if n in cells and n not in seen]
            if free:
                for cell in free:
                    search([*stack, cell], seen | {cell}, edges | {frozenset(((r, c), cell))})
                return
            stack = stack[:-1]
        trees.add(frozenset(edges))

    for root in cells:
        search([root], {root}, set())
    return trees


def test_dfs_reaches_exactly_the_depth_first_trees():
    """A depth-first tree leaves no edge between two branches, so 88 of the 192 trees of 3x3 cells can come up."""
    possible = depth_first_trees(3, 3)
    assert len(possible) == 88
    found = set()
    for walls in generate_layouts(20_000, 7, "dfs", seed=11).walls:
        edges = set()
        for r, c in np.argwhere(~walls).tolist():
            if r % 2 == 0 or c % 2 == 0:
                down = int(r % 2 == 0)
                one = ((r - 1 - down) // 2, (c - 2 + down) // 2)
                edges.add(frozenset((one, (one[0] + down, one[1] + 1 - down))))
        found.add(frozenset(edges))
    assert found == possible


@pytest.mark.parametrize(("cells", "trees"), [(2, 4), (3, 192), (4, 100352)])
def test_number_of_spanning_trees(cells, trees):
    assert round(np.exp(log_spanning_trees(cells, cells))) == trees


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_full_braid_leaves_no_dead_end(algorithm):
    walls = generate_layouts(50, (11, 15), algorithm, 1, braid=1.0).walls
    is_open = ~walls
    ways = sum(np.roll(is_open, shift, axis) for shift, axis in ((1, 1), (-1, 1), (1, 2), (-1, 2)))
    assert (ways[:, 1:-1:2, 1:-1:2] >= 2).all()


def test_braid_opens_about_its_share_of_dead_ends():
    def dead_ends(braid):
        is_open = ~generate_layouts(400, 17, "prim", 1, braid=braid).walls
        ways = sum(np.roll(is_open, shift, axis) for shift, axis in ((1, 1), (-1, 1), (1, 2), (-1, 2)))
        return (ways[:, 1:-1:2, 1:-1:2] == 1).sum()

    none, half, most = dead_ends(0.0), dead_ends(0.5), dead_ends(1.0)
    assert most == 0
    assert 0.35 * none < half < 0.55 * none  # an opened wall may end a neighbour's dead end too


def test_openings_remove_so_many_walls():
    def open_squares(openings):
        return (~generate_layouts(20, 9, "prim", 2, openings=openings).walls).sum(axis=(1, 2))

    np.testing.assert_array_equal(open_squares(3), open_squares(0) + 3)
    # 4x4 cells have 24 walls between neighbours, 15 of them open in a perfect maze.
    np.testing.assert_array_equal(open_squares(9), open_squares(10**6))
    assert set(open_squares(10**6)) == {16 + 24}


def test_random_endpoints_are_uniform_over_pairs_of_cells():
    mazes = generate_layouts(12_000, 5, "prim", 4, endpoints="random")
    pairs = Counter(map(tuple, np.hstack([mazes.start, mazes.goal]).tolist()))
    assert len(pairs) == 4 * 3
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-4


def test_farthest_endpoints_are_the_diameter():
    mazes = generate_layouts(20, 9, "rooms", 4, endpoints="farthest")
    lengths = shortest_lengths(*mazes)
    for m, walls in enumerate(mazes.walls):
        cells = [(r, c) for r in range(1, 9, 2) for c in range(1, 9, 2)]
        layouts = [MazeLayout(walls, one, other) for one in cells for other in cells if one != other]
        assert lengths[m] == max(layout.shortest_path_length for layout in layouts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("distance", [2, 8, 14])
def test_endpoints_at_a_distance(algorithm, distance):
    mazes = generate_layouts(50, 9, algorithm, 4, endpoints="distance", distance=distance)
    assert set(shortest_lengths(*mazes)) == {distance}
    assert len({tuple(start) for start in mazes.start.tolist()}) > 1


def test_large_mazes_do_not_recurse():
    mazes = generate_layouts(1, 101, "dfs", 0)
    assert (~mazes.walls).sum() == 2 * 50 * 50 - 1


@pytest.mark.parametrize("size", [(3, 5), (5, 3), (3, 41)])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_smallest_and_narrow_sizes(size, algorithm):
    mazes = generate_layouts(2, size, algorithm, 0, braid=1.0, openings=5)
    assert (~mazes.walls[:, 1:-1, 1:-1]).all() or min(size) > 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"size": 8}, ValueError, ["size=8x8", "odd", "walls included", "7 and 9"]),
        ({"size": (9, 10)}, ValueError, ["the width 10"]),
        *[({"size": n}, ValueError, ["size="]) for n in (-1, 0, 1, 2, 3, 4)],
        ({"size": 9.0}, TypeError, ["size=9.0", "(height, width)"]),
        ({"size": "9x9"}, TypeError, ["size='9x9'"]),
        ({"size": (9, 9, 9)}, TypeError, ["size=(9, 9, 9)"]),
        ({"size": True}, TypeError, ["size=True"]),
        ({"size": 10**9 + 1}, ValueError, ["from 3 to 4096"]),
        ({"algorithm": "prm"}, ValueError, ["algorithm='prm'", "did you mean 'prim'"]),
        ({"algorithm": None}, ValueError, ["algorithm=None"]),
        ({"algorithm": np.array(["prim", "dfs"])}, ValueError, ["algorithm=", "'prim', 'dfs'"]),
        ({"seed": -1}, ValueError, ["seed=-1", "0 to 18446744073709551615"]),
        ({"seed": 1.5}, TypeError, ["seed=1.5"]),
        ({"seed": 2**64}, ValueError, ["seed="]),
        ({"count": -1}, ValueError, ["count=-1"]),
        ({"count": True}, ValueError, ["count=True"]),
        ({"braid": 1.5}, ValueError, ["braid=1.5", "0 (none) to 1"]),
        ({"braid": float("nan")}, ValueError, ["braid=nan"]),
        ({"braid": np.float32(-0.5)}, ValueError, ["braid="]),
        ({"braid": "0.5"}, TypeError, ["braid='0.5'", "a probability from 0 (none) to 1 (all dead ends)"]),
        ({"braid": True}, TypeError, ["braid=True"]),
        ({"openings": -1}, ValueError, ["openings=-1"]),
        ({"endpoints": "corner"}, ValueError, ["did you mean 'corners'"]),
        ({"distance": 4}, ValueError, ["distance=4", "endpoints='corners'"]),
        ({"endpoints": "distance"}, ValueError, ["distance=None"]),
        ({"endpoints": "distance", "distance": 5}, ValueError, ["distance=5 is odd"]),
        ({"endpoints": "distance", "distance": 0}, ValueError, ["distance=0"]),
        ({"num_threads": 0}, ValueError, ["num_threads=0"]),
    ],
)
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error) as caught:
        generate_layouts(**{"count": 1, "size": 9, **arguments})
    for word in words:
        assert word in str(caught.value)


def test_a_distance_that_never_comes_up_is_an_error():
    with pytest.raises(
        ValueError, match=r"maze 0 of seed 3: .*distance=8 .*1000 5x5 prim mazes .*longest distance was 6"
    ):
        generate_layouts(1, 5, "prim", 3, endpoints="distance", distance=8)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_distance_that_never_comes_up_is_reported_at_once(threads, monkeypatch):
    calls = []

    def spy(*arguments):
        calls.append(arguments)
        return fill_mazes(*arguments)

    monkeypatch.setattr(generate, "fill_mazes", spy)
    with pytest.raises(ValueError, match="maze 0 of seed 3"):
        generate_layouts(100_000, 5, "prim", 3, endpoints="distance", distance=8, num_threads=threads)
    assert len(calls) <= 20  # of 391 chunks


@pytest.mark.parametrize("threads", [1, 2])
def test_what_comes_before_a_failure_is_kept(threads):
    # A distance of 26 is rare in 9x9 squares, and the first maze that has none in 1,000 attempts is number 87.
    spec = MazeSpec((9, 9), "prim", endpoints="distance", distance=26)
    mazes, failure = generate_until_failure(spec, 600, 0, num_threads=threads)
    assert failure.startswith("maze 87 of seed 0: no two cells are distance=26 moves apart")
    assert (len(mazes.walls), len(mazes.start), len(mazes.goal)) == (87, 87, 87)
    whole, none = generate_until_failure(spec, 87, 0)
    assert none == ""
    for one, other in zip(mazes, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(generate_until_failure(spec, 5, 0, first_index=87)[0].walls) == 0


def test_numbers_of_any_kind():
    plain = generate_layouts(3, 9, braid=0.5, openings=1)
    for braid in (np.float32(0.5), np.float64(0.5)):
        other = generate_layouts(np.int8(3), np.int64(9), braid=braid, openings=np.uint8(1))
        np.testing.assert_array_equal(plain.walls, other.walls)
    assert MazeSpec((9, 9), braid=np.int64(1)).to_dict()["braid"] == 1.0
    assert type(MazeSpec((9, 9), braid=np.int64(1)).braid) is float


def test_spec_is_json_ready():
    assert MazeSpec(9).to_dict() == {  # type: ignore[arg-type]
        "size": [9, 9], "algorithm": "prim", "braid": 0.0, "openings": 0, "endpoints": "corners", "distance": None,
    }  # fmt: skip


def test_drawn_prompts_are_uniform_and_differ_by_seed():
    draws = np.array([[nth_prompt(prompt_key(seed), i, 10) for i in range(2000)] for seed in range(5)])
    assert stats.chisquare(np.bincount(draws.ravel(), minlength=10)).pvalue > 1e-4
    agreement = (draws[0] == draws[1]).mean()
    assert 0.07 < agreement < 0.13


def test_prompt_keys_of_large_seeds_differ():
    seeds = [low + (high << shift) for low in (0, 1, 7) for shift in (64, 70, 128) for high in (0, 1, 2, 2**63)]
    assert len({prompt_key(seed) for seed in seeds}) == len(set(seeds))
    # Seeds below 2**64 keep the order of prompts that they had in the first version.
    assert [prompt_key(seed) for seed in (0, 1, 2**64 - 1)] == [
        2902805962516761537, 497703520335024666, 16208336117914671278,
    ]  # fmt: skip
    assert [nth_prompt(prompt_key(3), i, 1000) for i in range(4)] == [934, 570, 661, 954]


def test_digest_is_that_of_the_layout():
    mazes = generate_layouts(1, 9)
    layout = MazeLayout(mazes.walls[0], mazes.start[0].tolist(), mazes.goal[0].tolist())
    assert digest_of(digest_content(*mazes)[0]) == layout.digest
    assert digest_of(digest_content(mazes.walls)[0]) == layout.walls_digest
