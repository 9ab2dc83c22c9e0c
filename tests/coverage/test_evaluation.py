"""Evaluation: hand values, the same outcome on every path, nothing disturbed, tables and pictures."""

import json
import random

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from sera_maze.algorithm.maxrl import SERA
from sera_maze.coverage import path_sheets
from sera_maze.coverage.callback import CoverageCallback
from sera_maze.coverage.evaluation import evaluate
from sera_maze.coverage.evaluator import EVALUATION_UPDATE, Evaluator, rules_of
from sera_maze.coverage.path_sheets import write_pictures
from sera_maze.coverage.solutions import count_distinct
from sera_maze.coverage.tables import Evaluation, difficulty_bins
from sera_maze.coverage.unbiased import coverage
from sera_maze.envs import FreshMazes, MazeEnv, MazeLayout, MazePool
from sera_maze.envs.play.rules import MazeRules
from sera_maze.exact.probability import success_probability
from sera_maze.policies.maze import MazePolicy
from sera_maze.sampling import maps, steps
from sera_maze.sampling.maps import MapSampler
from sera_maze.sampling.plain_mazes import PlainMazes
from sera_maze.sampling.vec_env import MazeVecEnv

POOL = MazePool.generate(12, 7, "prim", seed=1, braid=0.5, endpoints="random")
STAY = MazeRules((7, 7), on_wall="stay", max_steps=25)
# One move and two moves to the right.
CORRIDORS = MazePool.from_layouts([MazeLayout.from_text(f"#####\n{row}\n#####") for row in ("#SG##", "#S.G#")])


def make_policy(pool=POOL, seed=0, kind=MazePolicy):
    env = MazeEnv(pool)
    torch.manual_seed(seed)
    return kind(env.observation_space, env.action_space, lambda _: 1e-3, channels=8)


class Rightward(MazePolicy):
    """Goes right with a given probability, else up."""

    chance = 0.5

    def maps(self, walls, goal):
        probabilities = torch.tensor([1 - self.chance, 0, 0, self.chance])
        return probabilities.log().expand(*walls.shape, 4), torch.zeros(walls.shape)


class Reversed(gym.ActionWrapper):
    """Turns every move round: something between policy and maze."""

    def action(self, action):
        return action ^ 1


def test_exact_figures_are_those_of_the_formula():
    result = evaluate(make_policy(CORRIDORS, kind=Rightward), CORRIDORS, num_samples=2000, ks=(1, 2))
    assert result.probability.tolist() == pytest.approx([0.5, 0.25], abs=1e-7)
    assert result.exact_pass_at_k.tolist() == pytest.approx([0.375, 1 - (0.25 + 0.5625) / 2], abs=1e-7)
    # The standard deviations are below 23; a rollout takes 1 move, or 1 + 1/2 moves.
    assert abs(result.successes - [1000, 500]).max() < 5 * 23
    assert result.steps[0] == 1
    assert abs(result.steps[1] - 1.5) < 5 * 0.5 / 2000**0.5
    assert result.distinct_solutions.tolist() == [1, 1]
    assert result.difficulty.tolist() == [1, 2]
    assert result.coverage.pass_at_k[0] == pytest.approx(result.successes.mean() / 2000, abs=1e-15)


def test_the_rollouts_are_the_map_samplers_with_numbers_of_their_own():
    policy, everyone, counts = make_policy(), torch.arange(12), torch.full((12,), 40)
    result = evaluate(policy, POOL, num_samples=40, ks=(1, 4), rules=STAY, seed=5)
    sampler = MapSampler(PlainMazes(POOL, STAY), seed=5)
    expected = sampler.sample(policy, everyone, counts, EVALUATION_UPDATE)
    assert result.successes.tolist() == expected.successes.tolist()
    assert result.steps.tolist() == expected.lengths.view(12, 40).double().mean(1).tolist()
    assert np.array_equal(result.coverage.per_maze, coverage(result.successes, (1, 4), 40).per_maze)
    exact = success_probability(policy, POOL, STAY.horizon, "stay").detach().numpy()
    assert np.array_equal(result.probability, exact)
    assert 0.05 < exact.mean() < 0.95
    assert not torch.equal(sampler.sample(policy, everyone, counts, 0).lengths, expected.lengths)


def test_sampled_rates_agree_with_the_exact_probabilities():
    result = evaluate(make_policy(), POOL, num_samples=2000, ks=(1,), rules=STAY)
    deviation = np.sqrt(result.probability * (1 - result.probability) / 2000)
    assert (abs(result.success_rate - result.probability) < 4.5 * deviation + 1e-12).all()


@pytest.mark.parametrize("rules", [STAY, MazeRules((7, 7), max_steps=25)])
def test_stepping_environments_gives_the_same(rules):
    policy = make_policy()
    options = {"num_samples": 30, "ks": (1, 8), "seed": 2}
    mapped = evaluate(policy, POOL, rules=rules, **options)
    env = MazeVecEnv(5, POOL, on_wall=rules.on_wall, max_steps=25)
    stepped = evaluate(policy, POOL, env=env, exact=True, **options)
    assert stepped.rules == rules
    for name in ("successes", "steps", "distinct_solutions", "probability"):
        assert np.array_equal(getattr(mapped, name), getattr(stepped, name)), name
    assert evaluate(policy, POOL, env=env, **options).probability is None
    one = evaluate(policy, POOL, env=MazeEnv(POOL, on_wall=rules.on_wall, max_steps=25), **options)
    assert one.successes.tolist() == mapped.successes.tolist()


def test_passes_do_not_change_the_outcome(monkeypatch):
    policy, env = make_policy(), MazeVecEnv(5, POOL, on_wall="stay", max_steps=25)

    def both():
        return [evaluate(policy, POOL, num_samples=20, ks=(1,), rules=STAY, env=e).to_json() for e in (None, env)]

    whole = both()
    monkeypatch.setattr(maps, "_STEPS_A_PASS", 3 * 20 * 25)
    monkeypatch.setattr(steps, "_VALUES_A_PASS", 1)
    assert sum(1 for _ in Evaluator(policy, POOL, rules=STAY).sample(np.arange(12), 20)) == 4
    for before, after in zip(whole, both(), strict=True):
        # Other batches of the network: p may differ in its last digits.
        assert before["per_prompt"].pop("probability") == pytest.approx(
            after["per_prompt"].pop("probability"), abs=1e-6
        )
        for results in (before, after):
            results["pass_at_k"], results["by_difficulty"] = None, None
        assert before == after


@pytest.mark.gpu
def test_the_gpu_gives_the_same():
    policy = make_policy()
    options = {"num_samples": 200, "ks": (1,), "rules": STAY}
    here = evaluate(policy, POOL, **options)
    there = evaluate(policy.cuda(), POOL, **options)
    assert there.probability == pytest.approx(here.probability, abs=1e-4)
    # A probability that is rounded otherwise changes an action now and then.
    assert abs(there.successes - here.successes).max() <= 2
    assert there.distinct_solutions.sum() == pytest.approx(here.distinct_solutions.sum(), rel=0.05)


def test_paths_and_distinct_solutions():
    evaluator = Evaluator(make_policy(), POOL, rules=STAY)
    (part,) = evaluator.sample(np.array([7, 2]), 200)
    paths = evaluator.paths(part)
    assert len(paths) == 400
    solutions = [set(), set()]
    for r, (path, length, done) in enumerate(zip(paths, part.lengths.tolist(), part.success.tolist(), strict=True)):
        maze = [7, 2][r // 200]
        assert path[0].tolist() == POOL.start[maze].tolist()
        assert len(path) == length + done
        assert abs(np.diff(path, axis=0)).sum(1).max(initial=0) <= 1
        assert not POOL.walls[maze, path[:, 0], path[:, 1]].any()
        if done:
            assert path[-1].tolist() == POOL.goal[maze].tolist()
            moved = [True, *np.diff(path, axis=0).any(1)]
            solutions[r // 200].add(tuple(map(tuple, path[moved])))
    keys = evaluator.sampler.solutions(part)
    distinct = count_distinct(keys, part.owner.numpy(), part.success.numpy(), 2)
    assert distinct.tolist() == [len(found) for found in solutions]
    assert min(map(len, solutions)) > 1
    # The first rollouts do not depend on how many there are, nor on the other mazes.
    (alone,) = evaluator.sample(np.array([2]), 50)
    assert torch.equal(alone.lengths, part.lengths[200:250])


@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_disturbed(training):
    policy, env = make_policy(), MazeVecEnv(3, POOL)
    policy.set_training_mode(training)
    next(policy.children()).eval()  # a part that is frozen
    modes = [module.training for module in policy.modules()]
    before = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
    for environments in (None, env):
        evaluate(policy, POOL, num_samples=4, ks=(1,), env=environments)
    after = torch.get_rng_state(), str(np.random.get_state()), random.getstate()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert [module.training for module in policy.modules()] == modes
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_the_mode_is_put_back_after_an_error():
    class Broken(MazePolicy):
        def maps(self, walls, goal):
            raise ArithmeticError

    policy = make_policy(kind=Broken)
    policy.set_training_mode(True)
    with pytest.raises(ArithmeticError):
        evaluate(policy, POOL, num_samples=4, ks=(1,))
    assert policy.training


def test_other_policies_are_stepped():
    env = MazeVecEnv(8, POOL, on_wall="stay", max_steps=25)
    torch.manual_seed(0)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    result = evaluate(policy, POOL, num_samples=20, ks=(1, 4), env=env)
    assert result.probability is None
    assert result.exact_pass_at_k is None
    assert {row.exact for row in result.table()} == {None}
    assert result.distinct_solutions.sum() > 0
    assert "| - |" in result.markdown()
    with pytest.raises(
        ValueError,
        match=r"must be stepped \(the policy, ActorCriticPolicy, is not a MazePolicy\): pass env=",
    ):
        evaluate(policy, POOL, num_samples=20, ks=(1, 4))
    with pytest.raises(ValueError, match="exact=True needs a MazePolicy on mazes, but the policy, Actor"):
        evaluate(policy, POOL, num_samples=20, ks=(1, 4), env=env, exact=True)


@pytest.mark.parametrize("on_wall", ["stay", "fail"])
def test_where_moves_are_changed_on_the_way_paths_are_not_known(tmp_path, on_wall):
    policy = make_policy()
    env = DummyVecEnv([lambda: Reversed(MazeEnv(POOL, on_wall=on_wall, max_steps=25))])
    result = evaluate(policy, POOL, num_samples=5, ks=(1,), env=env)
    assert result.distinct_solutions is None
    assert result.mean_distinct_solutions is None
    assert "distinct" not in result.summary()
    assert result.to_json()["per_prompt"]["distinct_solutions"] is None
    with pytest.raises(ValueError, match="no paths to draw"):
        write_pictures(result, Evaluator(policy, POOL, env=env), tmp_path)


def hand_made(**changes):
    """Two mazes, four rollouts each: one success and four."""
    successes = np.array([1, 4])
    fields = {
        "successes": successes,
        "coverage": coverage(successes, (1, 2), 4),
        "steps": np.array([30.5, 20.0]),
        "difficulty": np.array([20, 12]),
        "distinct_solutions": np.array([1, 2]),
        "probability": np.array([0.5, 1.0]),
        "rules": MazeRules((9, 9)),
        "seed": 3,
    }
    return Evaluation(**{**fields, **changes})


def test_tables():
    result = hand_made()
    # pass@1: (1/4 + 1) / 2, pass@2: (1/2 + 1) / 2; the intervals are +- 1.95996 * 0.375, and down to
    # Wilson's lower end, 0.1979, which is below 0.75 - 1.95996 * 0.25.
    assert result.markdown().splitlines() == [
        "| k | pass@k, sampled | 95 % interval over mazes | pass@k, exact |",
        "| --: | --: | --: | --: |",
        "| 1 | 62.50 % | 0.00 to 100.00 % | 75.00 % |",
        "| 2 | 75.00 % | 19.79 to 100.00 % | 87.50 % |",
        "",
        "2 mazes of 9x9 squares, 4 rollouts each (seed 3, horizon 50, a wall ends the rollout): 100.00 % of the mazes "
        "solved at least once, 1.50 distinct solutions a maze, 25.2 steps a rollout.",
        "",
        "| shortest path | mazes | success rate | exact | solved at least once |",
        "| --: | --: | --: | --: | --: |",
        "| 12 | 1 | 100.00 % | 100.00 % | 100.00 % |",
        "| 20 | 1 | 25.00 % | 50.00 % | 100.00 % |",
    ]
    row = result.table()[1]
    assert (row.k, row.sampled, row.exact, row.high) == (2, 0.75, 0.875, 1.0)
    assert row.low == pytest.approx(0.75 - 1.959964 * 0.25, abs=1e-6)


def test_tables_round_no_figure_to_certainty_and_have_one_unit():
    """All of 256 mazes solved does not say that 100 to 100 % are; tiny figures are percentages too."""
    many = {"steps": np.full(256, 20.0), "difficulty": None, "distinct_solutions": None}
    solved = np.full(256, 4)
    sure = hand_made(successes=solved, coverage=coverage(solved, (1,), 4), probability=np.full(256, 1 - 1e-7), **many)
    assert "| 1 | 100.00 % | 98.52 to 100.00 % | > 99.99 % |" in sure.markdown()
    assert (sure.table()[0].low, sure.table()[0].high) == (1, 1)  # as in evaluation.json, which stays as it was
    none = np.zeros(256, int)
    hopeless = hand_made(successes=none, coverage=coverage(none, (1,), 4), probability=np.full(256, 2e-252), **many)
    assert "| 1 | 0.00 % | 0.00 to 1.48 % | < 0.01 % |" in hopeless.markdown()


def test_json_holds_what_the_tables_do():
    result = hand_made()
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["pass_at_k"][0] == result.table()[0]._asdict()
    assert data["by_difficulty"][1] == result.by_difficulty()[1]._asdict()
    assert data["per_prompt"]["successes"] == [1, 4]
    assert (data["prompts"], data["size"], data["num_samples"], data["horizon"]) == (2, [9, 9], 4, 50)
    # A single maze has no interval over mazes.
    alone = evaluate(make_policy(CORRIDORS, kind=Rightward), CORRIDORS[:1], num_samples=4, ks=(1,))
    assert json.loads(json.dumps(alone.to_json(), allow_nan=False))["pass_at_k"][0]["low"] is None
    assert "% | - |" in alone.markdown()


def test_lengths_are_put_in_few_equally_wide_ranges():
    assert difficulty_bins(np.array([28, 28, 30, 32])).tolist() == [14, 14, 15, 16]
    # Nine lengths from 20 to 36 in steps of 2 need a width of 4: 20-22, 24-26, ..., 36.
    assert (difficulty_bins(np.arange(20, 37, 2)) - 5).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    for lengths in (np.arange(2, 500), np.array([7]), np.array([2, 4000])):
        assert len(np.unique(difficulty_bins(lengths))) <= 8
    (row,) = hand_made(difficulty=np.array([12, 13])).by_difficulty()
    assert (row.least, row.most, row.prompts, row.success_rate, row.exact) == (12, 13, 2, 0.625, 0.75)


class DictObservation(gym.ObservationWrapper):
    """Observations in a dict."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"maze": env.observation_space})

    def observation(self, observation):
        return {"maze": observation}


def test_environments_of_another_size_are_for_policies_of_any_size():
    pool = MazePool.generate(4, (9, 9))
    stepped = evaluate(make_policy(), pool, num_samples=4, ks=(1,), env=MazeVecEnv(2, pool))
    assert stepped.successes.tolist() == evaluate(make_policy(), pool, num_samples=4, ks=(1,)).successes.tolist()
    env = MazeVecEnv(2, POOL)
    policy = ActorCriticPolicy(env.observation_space, env.action_space, lambda _: 1e-3)
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        evaluate(policy, pool, num_samples=4, ks=(1,), env=MazeVecEnv(2, pool))


def test_rules_of_environments():
    env = MazeVecEnv(2, POOL, on_wall="stay", max_steps=25)
    assert rules_of(env, POOL) == STAY
    assert rules_of(env, CORRIDORS) == MazeRules((3, 5), on_wall="stay")
    assert rules_of(DummyVecEnv([lambda: gym.make("CartPole-v1")]), POOL) == MazeRules((7, 7))


@pytest.mark.parametrize(
    ("error", "message", "changes"),
    [
        (ValueError, "num_samples=0", {"num_samples": 0}),
        (ValueError, r"ks\[1\]=5", {"ks": (1, 5)}),
        (ValueError, "ks is empty", {"ks": ()}),
        (ValueError, "seed=-1", {"seed": -1}),
        (ValueError, "exact='yes' is not known; allowed are True, False and 'auto'", {"exact": "yes"}),
        (TypeError, "rules must be MazeRules, got str", {"rules": "stay"}),
        (ValueError, r"rules are for mazes of \(9, 9\) squares", {"rules": MazeRules((9, 9))}),
        (TypeError, "prompts must be a MazePool, other prompts or promptable environments, got list", {"pool": [1]}),
        (TypeError, "policy must be an on-policy model or its policy, got str", {"policy": "MazePolicy"}),
        (TypeError, "env must be a VecEnv or a gymnasium.Env, got int", {"env": 3}),
        (ValueError, "env plays other mazes", {"env": MazeVecEnv(2, POOL[::-1])}),
        (ValueError, "env plays other mazes", {"env": MazeVecEnv(2, POOL[:3])}),
        (ValueError, r"what the policy was made for \(Action spaces do not match", {"env": gym.make("CartPole-v1")}),
        (ValueError, r"made for \(Observation spaces do not match", {"env": DictObservation(MazeEnv(POOL))}),
        (ValueError, "1099511627776 prompts, more than can be evaluated", {"pool": MazeEnv(FreshMazes((7, 7)))}),
    ],
)
def test_wrong_arguments(error, message, changes):
    arguments = {"policy": make_policy(), "pool": POOL, "num_samples": 4, "ks": (1,), **changes}
    with pytest.raises(error, match=message):
        evaluate(arguments.pop("policy"), arguments.pop("pool"), **arguments)


@pytest.fixture
def sheets(monkeypatch):
    """The labels and tiles of every contact sheet drawn."""
    from sera_maze.envs.pictures import sheets as pictures

    drawn, original = [], pictures.contact_sheet

    def spy(tiles, *, columns, labels):
        drawn.append((tiles, labels))
        return original(tiles, columns=columns, labels=labels)

    monkeypatch.setattr(pictures, "contact_sheet", spy)
    return drawn


def test_pictures_of_solved_and_failed_mazes(tmp_path, sheets):
    policy = make_policy(CORRIDORS, kind=Rightward)
    policy.chance = 0.7
    result, evaluator = evaluate(policy, CORRIDORS, num_samples=50, ks=(1,)), Evaluator(policy, CORRIDORS)
    written = write_pictures(result, evaluator, tmp_path / "new")
    assert written == [tmp_path / "new" / "solved.png", tmp_path / "new" / "failed.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
    assert [labels for _, labels in sheets] == [
        ["solved: p = 70.00 %\nmaze 0, shortest path 1 moves", "solved: p = 49.00 %\nmaze 1, shortest path 2 moves"],
        [
            "30 of 50 failed: p = 49.00 %\nmaze 1, shortest path 2 moves",
            "15 of 50 failed: p = 70.00 %\nmaze 0, shortest path 1 moves",
        ],
    ]
    assert len(sheets[0][0]) == 2

    # Nothing is solved: the earlier picture of solved mazes goes.
    policy.chance = 1e-6
    nothing = evaluate(policy, CORRIDORS, num_samples=5, ks=(1,))
    assert write_pictures(nothing, evaluator, tmp_path / "new") == [tmp_path / "new" / "failed.png"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["failed.png"]
    assert sheets[-1][1][0] == "never solved: p < 0.01 %\nmaze 1, shortest path 2 moves"


def test_pictures_show_the_evaluated_rollouts_of_the_right_mazes(tmp_path, sheets, monkeypatch):
    from sera_maze.envs.pictures import drawing as rendering

    pool = MazePool.generate(20, 7, seed=3)
    policy, rules = make_policy(pool), MazeRules((7, 7), on_wall="stay", max_steps=400)
    result = evaluate(policy, pool, num_samples=30, ks=(1,), rules=rules)
    assert (result.successes > 0).all()
    drawn, original = [], rendering.draw_paths

    def spy(layout, paths, successes, **options):
        drawn.append((layout, len(paths), int(successes.sum())))
        return original(layout, paths, successes, **options)

    monkeypatch.setattr(rendering, "draw_paths", spy)
    write_pictures(result, Evaluator(policy, pool, rules=rules), tmp_path)
    order = np.lexsort((-pool.shortest_lengths, result.probability))
    easiest = order[::-1]
    expected = [*easiest[:4], *easiest[8:12], *easiest[-4:], *order[:12]]
    assert drawn == [(pool[maze], 30, result.successes[maze]) for maze in expected]
    names = [label.split(":")[0] for label in sheets[0][1]]
    assert names == ["easy"] * 4 + ["median"] * 4 + ["hard"] * 4


def test_of_equally_hard_mazes_those_with_longer_paths_come_first():
    order = path_sheets._from_hardest
    assert order(hand_made()).tolist() == [0, 1]
    assert order(hand_made(difficulty=np.array([12, 20]))).tolist() == [0, 1]
    assert order(hand_made(probability=np.ones(2))).tolist() == [0, 1]
    assert order(hand_made(probability=np.ones(2), difficulty=np.array([12, 20]))).tolist() == [1, 0]
    # Without exact probabilities, by the success rate.
    assert order(hand_made(probability=None, successes=np.array([4, 1]))).tolist() == [1, 0]


def test_pictures_need_the_pool_that_was_evaluated(tmp_path):
    policy = make_policy()
    result = evaluate(policy, POOL, num_samples=4, ks=(1,))
    with pytest.raises(ValueError, match="the evaluation is of 12 mazes, the pool has 3"):
        write_pictures(result, Evaluator(policy, POOL[:3]), tmp_path)


@pytest.mark.parametrize(
    ("num_samples", "ks"), [(64, (1, 8, 32)), (100, (1, 8, 32)), (1, (1,)), (256, (1, 8, 32, 128, 256))]
)
def test_default_ks_end_at_the_number_of_samples(num_samples, ks):
    assert evaluate(make_policy(), POOL[:2], num_samples=num_samples).ks == ks
    assert CoverageCallback(POOL, num_samples=num_samples).ks == ks
    with pytest.raises(ValueError, match=r"ks\[0\]=257 is out of range"):
        evaluate(make_policy(), POOL, ks=(257,))


def test_a_model_is_taken_for_its_policy_with_the_rules_of_its_environments():
    model = SERA("MazePolicy", MazeEnv(POOL[:4], on_wall="stay", max_steps=25), seed=0)
    options = {"num_samples": 20, "ks": (1, 4)}
    expected = evaluate(model.policy, POOL, rules=STAY, **options)
    found = evaluate(model, POOL, **options)
    assert found.rules == STAY
    assert found.successes.tolist() == expected.successes.tolist()
    assert evaluate(model, POOL, rules=MazeRules((7, 7)), **options).rules.on_wall == "fail"


def test_an_evaluation_prints_as_its_tables_and_is_short_in_a_list():
    result = evaluate(make_policy(CORRIDORS, kind=Rightward), CORRIDORS, num_samples=8, ks=(1, 2, 8))
    assert str(result) == result.markdown()
    first, last = result.coverage.pass_at_k[[0, 2]]
    assert repr(result) == f"<Evaluation of 2 mazes, 8 rollouts each: pass@1 {first:.3f}, pass@8 {last:.3f}>"
