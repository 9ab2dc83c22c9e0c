"""Options that an env does not read are told once, and only those: of FrozenLake, CartPole and wrappers around them."""

import copy
import pickle
import warnings

import gymnasium as gym
import pytest

from sera_maze.envs import MazeEnv, MazePool, PromptQueue
from sera_maze.envs.play.noted_options import NotedOptions

LAKES = [{"desc": ["SFG", "FFF"]}, {"desc": ["SHG", "FFF"]}]
POLES = [{"low": -0.1, "high": 0.1}, {"low": -0.01}, (3, {"high": 0.2})]


class Read(gym.Wrapper):
    """Builds the lake of the options, read by a function."""

    def __init__(self, env, read):
        super().__init__(env)
        self.read = read

    def reset(self, *, seed=None, options=None):
        self.unwrapped.__init__(desc=self.read(options))
        return self.env.reset(seed=seed)


class Late(gym.Wrapper):
    """Keeps the options, and reads them in the first step."""

    def reset(self, *, seed=None, options=None):
        self.options = options
        return self.env.reset(seed=seed)

    def step(self, action):
        self.unwrapped.__init__(desc=self.options["desc"])
        return self.env.step(action)


def told(env, steps=1):
    """What is warned of while each prompt is played for some steps, and once more."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for prompt in [*range(env.num_prompts), 0]:
            env.reset(options={"prompt": prompt})
            for _ in range(steps):
                env.step(0)
        env.reset()
    assert all(item.filename == __file__ for item in caught)
    return [str(item.message) for item in caught]


def queue(env, prompts):
    return PromptQueue(env, prompts, success=lambda episode: True)


def test_a_lake_that_reads_no_map_is_told_once():
    (message,) = told(queue(gym.make("FrozenLake-v1"), LAKES))
    assert message.startswith(
        "FrozenLakeEnv did not read ['desc'] of the options of prompt 0: prompts that differ only"
    )
    assert "a gymnasium.Wrapper around it" in message


def test_the_end_of_an_episode_tells_it():
    env = queue(gym.make("FrozenLake-v1", desc=["SG"], is_slippery=False), [{"desc": ["SFG"]}])
    env.reset()
    with pytest.warns(UserWarning, match="did not read"):
        env.step(2)


@pytest.mark.parametrize(
    "read",
    [
        lambda options: options["desc"],
        lambda options: options.get("desc"),
        lambda options: options.pop("desc"),
        lambda options: {**options}["desc"],
        lambda options: dict(options)["desc"],
        lambda options: (options | {})["desc"],
        lambda options: next(iter(options.values())),
        lambda options: next(value for _, value in options.items()),
        lambda options: copy.deepcopy(options)["desc"],
        lambda options: pickle.loads(pickle.dumps(options))["desc"],
        lambda options: options.copy()["desc"],
        lambda options: (lambda desc: desc)(**options),
    ],
)
def test_whoever_reads_the_map_is_not_told(read):
    env = queue(Read(gym.make("FrozenLake-v1"), read), LAKES)
    assert told(env) == []
    for prompt, lake in enumerate(LAKES):
        env.reset(options={"prompt": prompt})
        assert [b"".join(row).decode() for row in env.unwrapped.desc] == lake["desc"]


def test_options_that_are_read_late_and_environments_that_are_only_reset_are_not_told():
    assert told(queue(Late(gym.make("FrozenLake-v1")), LAKES)) == []
    assert told(queue(gym.make("FrozenLake-v1"), LAKES), steps=0) == []


def test_cart_pole_reads_its_bounds_and_nothing_else():
    assert told(queue(gym.make("CartPole-v1"), POLES)) == []
    (message,) = told(queue(gym.make("CartPole-v1"), [*POLES, (1, {"low": -0.1, "hihg": 0.1})]))
    assert message.startswith("CartPoleEnv did not read ['hihg'] of the options of prompt 3")


def test_seeds_and_options_of_a_call_are_not_told():
    env = queue(gym.make("FrozenLake-v1"), [1, (2, {})])
    assert told(env) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(options={"prompt": 0, "other": 1})
        env.step(0)
        env.reset()


def test_mazes_read_theirs():
    pool = MazePool.generate(2, 5)
    assert told(queue(MazeEnv(pool), [{"prompt": 1}, {"layout": pool[0]}])) == []


def test_a_dict_all_the_same():
    options = NotedOptions({"a": 1, "b": 2})
    assert "a" in options
    assert options.setdefault("c", 3) == 3
    assert options.unread == {"b"}
    assert (len(options), bool(options), isinstance(options, dict)) == (3, True, True)
    assert options == {"a": 1, "b": 2, "c": 3}
    assert options.unread == set()
    assert type(copy.deepcopy(options)) is dict
    assert options.keys() == {"a", "b", "c"}
