"""Seeds and learning rates in one command: Optuna draws the rate, each trial is the mean over seeds.

It needs an extra: pip install -e ".[examples]"

    python examples/sweep.py --trials 8 --seeds 3 --updates 100
"""

import argparse

import numpy as np

from sera_maze import SERA, MazeEnv, MazePool, evaluate

try:
    import optuna
except ImportError:
    raise SystemExit('this example needs Optuna: pip install -e ".[examples]"') from None


def coverage(rate: float, seed: int, updates: int) -> float:
    """Exact pass@8 on held-out mazes after a training."""
    train, held_out = MazePool.generate(300, 9, seed=0).split(50)
    model = SERA(
        "MazePolicy", MazeEnv(train), learning_rate=rate, prompts_per_batch=16, rollouts_per_prompt=8, seed=seed,
        policy_kwargs={"channels": 16},
    )  # fmt: skip
    model.warm_start(40)
    model.learn(10**9, total_updates=updates)
    found = evaluate(model, held_out, num_samples=8, ks=(8,))
    return float(found.exact_pass_at_k[0])


def main() -> None:
    """Run the trials and print them, the best first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("trials", 8), ("seeds", 3), ("updates", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
        values = [coverage(rate, seed, options.updates) for seed in range(options.seeds)]
        trial.set_user_attr("of seeds", values)
        return float(np.mean(values))

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=options.trials)
    print("learning rate   pass@8   of each seed")
    for trial in sorted(study.trials, key=lambda trial: -(trial.value or 0)):
        each = ", ".join(f"{value:.3f}" for value in trial.user_attrs["of seeds"])
        print(f"{trial.params['learning_rate']:13.5f}   {trial.value:6.3f}   {each}")


if __name__ == "__main__":
    main()
