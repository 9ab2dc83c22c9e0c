"""Zip files of other algorithms: named for what they are, and nothing is unpickled to know it."""

import io

import pytest
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC

from sera_maze.algorithm.maxrl import SERA, MaxRL
from sera_maze.envs import MazeEnv, MazePool
from sera_maze.storage.zip_files import check_is_own

POOL = MazePool.generate(4, 5)


@pytest.mark.parametrize(
    ("kind", "env", "named"),
    [
        (PPO, "CartPole-v1", "a PPO"),
        (A2C, "CartPole-v1", "a A2C"),
        (DQN, "CartPole-v1", "a DQN"),
        (SAC, "Pendulum-v1", "a SAC"),
        (DDPG, "Pendulum-v1", "a TD3"),
    ],
)
def test_what_saved_it_is_named(tmp_path, kind, env, named):
    options = {} if kind in (PPO, A2C) else {"buffer_size": 10}
    kind("MlpPolicy", env, device="cpu", **options).save(tmp_path / "agent.zip")
    for path in (tmp_path / "agent.zip", tmp_path / "agent"):
        with pytest.raises(ValueError, match=rf"was saved by {named} \(or .*\), not by a SERA; load it with "):
            SERA.load(path)


def test_the_remedy_for_a_ppo_works(tmp_path):
    saved = PPO(MaxRL.policy_aliases["MazePolicy"], MazeEnv(POOL), seed=3, device="cpu")
    saved.save(tmp_path / "agent.zip")
    with pytest.raises(ValueError, match=r"policy\.load_state_dict\(PPO\.load\(\.\.\.\)\.policy\.state_dict\(\)\)"):
        MaxRL.load(tmp_path / "agent.zip")
    model = SERA("MazePolicy", MazeEnv(POOL), seed=0)
    model.policy.load_state_dict(PPO.load(tmp_path / "agent.zip").policy.state_dict())
    assert model.policy.state_dict()["net.read.weight"].equal(saved.policy.state_dict()["net.read.weight"])


def test_an_open_file_stays_where_it_was():
    file = io.BytesIO()
    SERA("MazePolicy", MazeEnv(POOL), seed=0).save(file)
    file.seek(0)
    check_is_own(file, "SERA")
    assert file.tell() == 0
    assert SERA.load(file).seed == 0
    other = io.BytesIO()
    PPO("MlpPolicy", "CartPole-v1", device="cpu").save(other)
    other.seek(0)
    with pytest.raises(ValueError, match="the file was saved by a PPO"):
        SERA.load(other)


def test_what_is_no_zip_file_is_left_to_stable_baselines3(tmp_path):
    (tmp_path / "agent.zip").write_text("nothing")
    with pytest.raises(ValueError, match="wasn't a zip-file"):
        SERA.load(tmp_path / "agent.zip")
