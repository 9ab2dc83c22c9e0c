"""Success probabilities from the history, a critic, or exact values."""

import doctest
from functools import partial

import numpy as np
import pytest
import torch

from sera_maze.allocation import allocate, success
from sera_maze.allocation.others import allocate_posterior
from sera_maze.allocation.success import (
    HIGHEST,
    LOWEST,
    CriticHistory,
    CriticSuccess,
    ExactSuccess,
    SuccessEstimator,
    SuccessHistory,
    UnknownSuccess,
)


def test_three_epochs_by_hand():
    """Prompt 0 always gets 4 rollouts, prompt 1 in the first epoch only, prompt 2 never."""
    history = SuccessHistory(3)
    everyone = torch.arange(3)
    assert not history.known
    assert history.probability(everyone).tolist() == [0.5, 0.5, 0.5]

    history.record(torch.tensor([0, 1]), torch.tensor([1, 4]), torch.tensor([4, 4]))
    assert history.probability(everyone).tolist() == [0.5, 0.5, 0.5]  # frozen while the epoch lasts
    assert not history.known
    history.start_epoch()
    assert history.known
    # evidence (successes, failures): (1, 3), (4, 0), (0, 0)
    assert history.probability(everyone).tolist() == [1.5 / 5, 4.5 / 5, 0.5]

    history.record(torch.tensor([0]), torch.tensor([2]), torch.tensor([4]))
    assert history.probability(everyone).tolist() == [1.5 / 5, 4.5 / 5, 0.5]
    history.start_epoch()
    # 0.75 (1, 3) + (2, 2) = (2.75, 4.25); 0.75 (4, 0) = (3, 0)
    assert history.probability(everyone).tolist() == [3.25 / 8, 3.5 / 4, 0.5]

    history.record(torch.tensor([0]), torch.tensor([0]), torch.tensor([4]))
    history.start_epoch()
    # 0.75 (2.75, 4.25) + (0, 4) = (2.0625, 7.1875); (2.25, 0): back toward the prior
    assert history.probability(everyone).tolist() == pytest.approx([2.5625 / 10.25, 2.75 / 3.25, 0.5], rel=1e-15)


def test_outcomes_of_an_epoch_add_up_wherever_they_come_from():
    once, repeated, split = SuccessHistory(2), SuccessHistory(2), SuccessHistory(2)
    once.record([0, 1], [5, 1], [9, 3])
    repeated.record([0, 1, 0, 0], [1, 1, 4, 0], [4, 3, 4, 1])
    split.record([0], [5], [8])
    split.record([1], [1], [3])
    split.record([0], [0], [1])
    for history in (once, repeated, split):
        history.start_epoch()
        assert history.probability([0, 1]).tolist() == pytest.approx([5.5 / 10, 1.5 / 4], rel=1e-15)


def test_prior_and_discount():
    history = SuccessHistory(1, prior=(1, 3), discount=0)
    assert history.probability([0]).item() == 0.25
    history.record([0], [4], [4])
    history.start_epoch()
    assert history.probability([0]).item() == 5 / 8
    history.start_epoch()
    assert history.probability([0]).item() == 0.25
    keeps_all = SuccessHistory(1, discount=1.0)
    for _ in range(3):
        keeps_all.record([0], [1], [2])
        keeps_all.start_epoch()
    assert keeps_all.probability([0]).item() == 3.5 / 7


def test_probabilities_suit_the_allocator():
    history = SuccessHistory(3, prior=(1e-300, 1e-300))
    history.record([0, 1], [10, 0], [10, 10])
    history.start_epoch()
    probability = history.probability(torch.tensor([0, 1, 2]))
    assert probability.dtype == torch.float64
    assert probability.tolist() == [HIGHEST, LOWEST, 0.5]
    assert allocate(probability, 12).counts.sum() == 12
    assert 0 < LOWEST < HIGHEST < 1


def test_nothing_is_shared_with_the_caller():
    history = SuccessHistory(2)
    history.probability(torch.tensor([0, 1])).fill_(9.0)
    state = history.state_dict()
    for value in state.values():
        value.fill_(7)
    assert history.probability([0, 1]).tolist() == [0.5, 0.5]
    assert not history.known


def test_state_round_trips_exactly_in_the_middle_of_an_epoch():
    history = SuccessHistory(5)
    history.record([0, 1, 2], [1, 2, 3], [7, 7, 7])
    history.start_epoch()
    history.record([0, 4], [2, 2], [3, 3])
    state = history.state_dict()
    assert all(type(name) is str and isinstance(value, torch.Tensor) for name, value in state.items())

    restored = SuccessHistory(5)
    restored.load_state_dict(state)
    assert restored.known
    for _ in range(2):
        assert torch.equal(restored.probability(range(5)), history.probability(range(5)))
        for name, value in history.state_dict().items():
            assert torch.equal(restored.state_dict()[name], value)
        for each in (history, restored):
            each.record([3], [1], [1])
            each.start_epoch()
    assert state["outcomes"].sum() == 6  # loading took a copy


def test_refuses_states_of_others():
    history = SuccessHistory(3)
    with pytest.raises(ValueError, match=r"state\['evidence'\] is torch.float64 of shape \(2, 4\); .* for 3 prompts"):
        history.load_state_dict(SuccessHistory(4).state_dict())
    with pytest.raises(ValueError, match="state has the keys"):
        history.load_state_dict({"evidence": torch.zeros(3)})
    state = history.state_dict()
    state["evidence"] = state["evidence"].float()
    with pytest.raises(ValueError, match=r"state\['evidence'\] is torch.float32"):
        history.load_state_dict(state)
    assert not history.known


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("evidence", float("nan"), r"state\['evidence'\]\[1, 0\] is nan; allowed are finite numbers of at least 0"),
        ("evidence", float("inf"), r"state\['evidence'\]\[1, 0\] is inf"),
        ("evidence", -0.5, r"state\['evidence'\]\[1, 0\] is -0.5"),
        ("outcomes", -1, r"state\['outcomes'\]\[1, 0\] is -1"),
        ("num_epochs", -1, r"state\['num_epochs'\] is -1"),
    ],
)
def test_refuses_states_with_numbers_that_cannot_be(name, value, message):
    history = SuccessHistory(3)
    history.record([0], [1], [2])
    history.start_epoch()
    before = history.state_dict()
    state = {key: tensor + 1 for key, tensor in before.items()}
    state[name].view(-1)[state[name].numel() // 2] = value
    with pytest.raises(ValueError, match=message):
        history.load_state_dict(state)
    assert all(torch.equal(before[key], tensor) for key, tensor in history.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([3], [0], [1]), r"prompts\[0\] is 3; allowed are the numbers 0 to 2"),
        (([0, -1], [0, 0], [1, 1]), r"prompts\[1\] is -1"),
        (([0, 1], [1, 3], [2, 2]), r"successes\[1\] is 3; allowed are 0 to the prompt's count"),
        (([0], [-1], [2]), r"successes\[0\] is -1"),
        (([0], [0], [-2]), r"counts\[0\] is -2"),
        (([0, 1], [0], [1, 1]), r"successes has shape \(1,\); allowed: \(2,\), as prompts"),
        (([0], [0], [[1]]), r"counts has shape \(1, 1\)"),
        ((0, 0, 1), r"prompts has shape \(\); allowed: \(B,\)"),
    ],
)
def test_record_refuses_wrong_values(arguments, message):
    history = SuccessHistory(3)
    with pytest.raises(ValueError, match=message):
        history.record(*arguments)
    history.start_epoch()
    assert history.probability([0, 1, 2]).tolist() == [0.5] * 3  # nothing was recorded


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [0], [1]), "prompts has dtype torch.float32; allowed: integers"),
        (([0], [True], [1]), "successes has dtype torch.bool"),
        (([0], [0], [1.0]), "counts has dtype torch.float32"),
        (([None], [0], [1]), "prompts does not consist of numbers"),
    ],
)
def test_record_refuses_wrong_types(arguments, message):
    with pytest.raises(TypeError, match=message):
        SuccessHistory(3).record(*arguments)


def test_nothing_to_record():
    history = SuccessHistory(2)
    history.record([], [], [])
    history.record(torch.tensor([1]), torch.tensor([0]), torch.tensor([0]))
    assert history.probability([]).shape == (0,)
    history.start_epoch()
    assert history.probability(np.array([0, 1], np.int16)).tolist() == [0.5, 0.5]


def test_probability_refuses_unknown_prompts():
    with pytest.raises(ValueError, match=r"prompts\[1\] is 2; allowed are the numbers 0 to 1"):
        SuccessHistory(2).probability(torch.tensor([0, 2]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_prompts": 0}, "num_prompts=0; allowed is 1 or more"),
        ({"prior": (0.0, 1.0)}, "prior="),
        ({"prior": (1.0, float("inf"))}, "prior="),
        ({"prior": (0.5,)}, "prior="),
        ({"discount": 1.5}, "discount=1.5; allowed is 0 to 1"),
        ({"discount": float("nan")}, "discount=nan"),
    ],
)
def test_history_refuses_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        SuccessHistory(**{"num_prompts": 3, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior": "ab"}, "prior='ab'; allowed are two finite numbers above 0"),
        ({"prior": 0.5}, "prior=0.5; allowed are two finite"),
        ({"prior": ("a", 0.5)}, "prior='a' is a str; allowed is two finite"),
        ({"prior": (True, 0.5)}, "prior=True is a bool"),
        ({"discount": "x"}, "discount='x' is a str; allowed is 0 to 1"),
        ({"discount": None}, "discount=None is a NoneType"),
    ],
)
def test_history_refuses_settings_that_are_no_numbers(arguments, message):
    with pytest.raises(TypeError, match=message):
        SuccessHistory(3, **arguments)


@pytest.mark.parametrize("num_prompts", [3.0, True, "3"])
def test_history_refuses_what_is_no_number_of_prompts(num_prompts):
    with pytest.raises(TypeError, match=f"num_prompts={num_prompts!r}; allowed is an int"):
        SuccessHistory(num_prompts)


def test_critic_is_the_logistic_function_kept_off_the_ends():
    logits = torch.tensor([0.0, -1000.0, 1000.0, 2.0], requires_grad=True)
    critic = CriticSuccess(lambda policy, prompts: logits[prompts])
    probability, posterior = critic.estimate(torch.tensor([0, 1, 2, 3, 3]))
    assert posterior is None
    assert probability.dtype == torch.float64
    assert not probability.requires_grad
    assert probability.tolist() == pytest.approx([0.5, LOWEST, HIGHEST] + [1 / (1 + np.exp(-2.0))] * 2, abs=0)
    assert allocate(probability, 20).counts.sum() == 20


def test_exact_values_are_kept_off_the_ends():
    values = torch.tensor([0.0, 1.0, 0.25], requires_grad=True)
    exact = ExactSuccess(lambda policy, prompts: values[prompts])
    probability, posterior = exact.estimate(torch.tensor([2, 1, 0]))
    assert posterior is None
    assert probability.dtype == torch.float64
    assert not probability.requires_grad
    assert probability.tolist() == [0.25, HIGHEST, LOWEST]
    assert values.tolist() == [0.0, 1.0, 0.25]


@pytest.mark.parametrize("kind", [CriticSuccess, ExactSuccess])
def test_critic_and_exact_learn_nothing_from_outcomes(kind):
    estimator: SuccessEstimator = kind(lambda policy, prompts: prompts * 0 + 0.5)
    before = estimator.estimate(torch.tensor([0, 1])).probability
    estimator.record(torch.tensor([0]), torch.tensor([3]), torch.tensor([3]))
    estimator.start_epoch()
    assert torch.equal(estimator.estimate(torch.tensor([0, 1])).probability, before)
    assert estimator.state_dict() == {}
    estimator.load_state_dict({})
    with pytest.raises(ValueError, match=rf"state has the keys \['evidence'\]; {kind.__name__} has no state"):
        estimator.load_state_dict({"evidence": torch.zeros(1)})
    broken = kind(lambda policy, prompts: torch.zeros((len(prompts), 1)))
    with pytest.raises(ValueError, match=r"gave shape \(2, 1\) for prompts of shape \(2,\)"):
        broken.estimate(torch.tensor([0, 1]))


@pytest.mark.parametrize("kind", [CriticSuccess, ExactSuccess, partial(CriticHistory, 2)])
def test_the_policy_that_is_about_to_be_sampled_is_asked(kind):
    asked = []
    estimator: SuccessEstimator = kind(lambda policy, prompts: asked.append(policy) or prompts * 0.0)
    estimator.estimate(torch.tensor([0, 1]), "the variant")
    estimator.estimate(torch.tensor([0, 1]))
    assert asked == ["the variant", None]


def test_nothing_is_known_where_nothing_is_estimated():
    estimator: SuccessEstimator = UnknownSuccess()
    estimator.record(torch.tensor([0]), torch.tensor([3]), torch.tensor([3]))
    estimator.start_epoch()
    assert estimator.estimate(torch.tensor([0, 1])) is None
    assert estimator.state_dict() == {}


def test_the_estimate_of_a_history_is_its_posterior_once_an_epoch_has_ended():
    history = SuccessHistory(3)
    history.record([0, 1], [1, 4], [4, 4])
    assert history.estimate([0, 1, 2]) is None
    history.start_epoch()
    probability, posterior = history.estimate([0, 1, 2], "no policy is asked")
    assert torch.equal(probability, history.probability([0, 1, 2]))
    assert probability.tolist() == [1.5 / 5, 4.5 / 5, 0.5]
    assert [part.tolist() for part in posterior] == [[1.5, 4.5, 0.5], [3.5, 0.5, 0.5]]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_history_on_a_gpu():
    history = SuccessHistory(3, device="cuda")
    history.record(torch.tensor([0, 0], device="cuda"), torch.tensor([1, 0]), [2, 2])
    history.start_epoch()
    probability = history.probability(torch.tensor([0, 1]))
    assert probability.device.type == "cuda"
    assert probability.tolist() == [1.5 / 5, 0.5]
    on_cpu = SuccessHistory(3)
    on_cpu.load_state_dict(history.state_dict())
    assert on_cpu.probability([0, 1]).tolist() == [1.5 / 5, 0.5]


def test_examples_in_the_documentation():
    result = doctest.testmod(success)
    assert result.attempted > 0
    assert result.failed == 0


def test_a_critic_as_the_prior_of_a_history_by_hand():
    """Weight 2 and logits of 0 and log 9: priors Beta(1, 1) and Beta(1.8, 0.2)."""
    logits = torch.log(torch.tensor([1.0, 9.0, 1.0], dtype=torch.float64))
    estimator = CriticHistory(3, lambda policy, prompts: logits[prompts], weight=2.0, discount=0.5)

    def probability(prompts):
        return estimator.estimate(prompts).probability

    assert probability([0, 1]).tolist() == pytest.approx([0.5, 0.9])  # known from the start
    estimator.record([0, 1], [3, 0], [4, 4])
    assert probability([0, 1]).tolist() == pytest.approx([0.5, 0.9])  # frozen while the epoch lasts
    estimator.start_epoch()
    assert probability([0, 1, 2]).tolist() == pytest.approx([4 / 6, 1.8 / 6, 0.5])
    won, lost = estimator.estimate([1, 0]).posterior
    assert won.tolist() == pytest.approx([1.8, 4.0])
    assert lost.tolist() == pytest.approx([4.2, 2.0])
    estimator.start_epoch()
    assert probability([0]).tolist() == pytest.approx([2.5 / 4])
    logits -= 5.0  # the network as it is now
    assert probability([2]).item() == pytest.approx(1 / (1 + np.exp(5)))


def test_a_critic_that_is_certain_leaves_a_posterior():
    estimator = CriticHistory(2, lambda policy, prompts: torch.tensor([900.0, -900.0])[prompts])
    chances, posterior = estimator.estimate([0, 1])
    assert ((chances > 0) & (chances < 1)).all()
    assert allocate(chances, 8).counts.sum() == 8
    assert allocate_posterior(*posterior, 8).counts.sum() == 8


def test_a_critic_history_goes_back_to_its_state():
    def make():
        return CriticHistory(2, lambda policy, prompts: torch.zeros(len(prompts)))

    first, second = make(), make()
    first.record([0], [2], [3])
    first.start_epoch()
    second.load_state_dict(first.state_dict())
    for estimator in (first, second):
        assert estimator.estimate([0, 1]).probability.tolist() == [3 / 5, 0.5]
    with pytest.raises(ValueError, match="weight=0"):
        CriticHistory(2, lambda policy, prompts: prompts, weight=0)
