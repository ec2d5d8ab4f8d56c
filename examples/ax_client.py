"""Use our generation node in Ax: nonlinear constraints, permutations, learned failures.

Run it with: python examples/ax_client.py [EVALUATIONS]
"""

import sys
import warnings

warnings.simplefilter("ignore")  # Ax warns about its own code

from ax.api.client import Client  # noqa: E402
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig  # noqa: E402
from ax.generation_strategy.generation_strategy import GenerationStrategy  # noqa: E402

from baco_like import Integer, Ordinal, Permutation, Space  # noqa: E402
from baco_like.integrations import BacoNode  # noqa: E402

ORDERS = ["i,j,k", "i,k,j", "j,i,k", "j,k,i", "k,i,j", "k,j,i"]

space = Space(
    {
        "tile": Ordinal([8, 16, 32, 64, 128], log=True),
        "unroll": Integer(1, 8, log=True),
        "loops": Permutation(["i", "j", "k"]),
    },
    constraints=["tile % unroll == 0"],
)


def experiment():
    client = Client()
    tiles = {"values": [8, 16, 32, 64, 128], "parameter_type": "int", "is_ordered": True}
    client.configure_experiment(
        name="kernel",
        parameters=[
            ChoiceParameterConfig(name="tile", **tiles),
            RangeParameterConfig(name="unroll", bounds=(1, 8), parameter_type="int"),
            ChoiceParameterConfig(
                name="loops", values=ORDERS, parameter_type="str", is_ordered=False
            ),
        ],
    )
    client.configure_optimization(objective="-time")
    return client


def evaluate(client, index, config):
    """Return a made-up time; compile and time your kernel here."""
    if config["tile"] * config["unroll"] > 512:
        client.mark_trial_failed(index, "compile: out of registers")
        return
    first = config["loops"].split(",").index("i")
    time = abs(config["tile"] - 64) / 8 + abs(config["unroll"] - 4) + first
    client.complete_trial(index, {"time": time + 1})


def main(evaluations):
    client = experiment()
    node = BacoNode(space, seed=1, budget=evaluations)
    client.set_generation_strategy(GenerationStrategy(nodes=[node]))
    for _ in range(evaluations // 2):
        for index, config in client.get_next_trials(max_trials=2).items():
            evaluate(client, index, config)
    best = node.optimizer.best
    failed = sum(trial.failure is not None for trial in node.optimizer.trials)
    print(f"best {dict(best.config)}: {best.value} ms; {failed} failed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
