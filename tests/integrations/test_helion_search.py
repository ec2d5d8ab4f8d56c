"""The spaces of Helion's kernels, and what only its adapter does: seeds, filter, overrides, equal configurations."""

import pytest

pytest.importorskip("helion")

import helion
import helion.language as hl
import torch
from helion.autotuner import EnumFragment, IntegerFragment, ListOf, PowerOfTwoFragment
from test_inside_compilers import provider

from baco_like import FailureWarning, Ordinal, Permutation
from baco_like.integrations.helion import BacoAutotuner, autotune, autotuner, read_space


@helion.kernel(static_shapes=True)
def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    rows, inner = left.size()
    columns = right.size(1)
    out = torch.empty([rows, columns], dtype=left.dtype, device=left.device)
    for row, column in hl.tile([rows, columns]):
        total = hl.zeros([row, column], dtype=torch.float32)
        for part in hl.tile(inner):
            total = torch.addmm(total, left[row, part], right[part, column])
        out[row, column] = total
    return out


ARGS = (torch.empty(4096, 4096), torch.empty(4096, 4096))


@pytest.fixture(scope="module")
def bound():
    pytest.importorskip("triton")
    kernel = product.bind(ARGS)
    kernel.settings.autotune_log_level = 0
    kernel.settings.autotune_random_seed = 0
    return kernel


@pytest.fixture
def settings(bound, monkeypatch):
    return lambda **values: [monkeypatch.setattr(bound.settings, n, v) for n, v in values.items()]


def search(bound, measure, **options):
    given = {"evaluations": 12, "batch": 1, "confirm": None, **options}
    made = BacoAutotuner(bound, ARGS, **given, benchmark_provider_cls=provider(measure))
    made._journal = lambda: options.get("storage")
    return made, made.autotune()


def cost(config):
    return (
        sum(abs(size.bit_length() - 8) for size in config["block_sizes"]) + config["num_warps"] / 8
    )


def test_the_fragments_of_a_kernel_become_typed_parameters(bound):
    fields = read_space(bound.config_spec.create_config_generation())
    types = {name: field.parameter for name, field in fields.parameters.items()}
    tiles = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert types["block_sizes_0"] == Ordinal(tiles, log=True, default=16)
    assert types["loop_orders_0"] == Permutation([0, 1], default=(0, 1))
    assert isinstance(types["num_stages"], Ordinal)
    assert set(types["pid_type"].values) >= {"flat", "persistent_blocked"}
    assert set(types["range_flattens_0"].values) == {None, False, True}
    assert {"load_eviction_policies_0", "load_eviction_policies_1"} < types.keys()


def test_configurations_survive_the_way_to_helion_and_back(bound):
    generation = bound.config_spec.create_config_generation()
    fields = read_space(generation)
    for _ in range(50):
        flat = generation.random_flat()
        assert fields.to_flat(fields.to_config(flat)) == flat


def test_limits_on_tensor_sizes_are_constraints(bound):
    made, _ = search(bound, cost, strategy="random_search", evaluations=30)
    space = made.optimizer.space
    limits = bound.config_spec.tensor_numel_constraints
    assert len(limits) == len(space.constraints) == 3
    for sizes in [(1024, 1024, 16), (2048, 1024, 16), (16, 1024, 2048), (2048, 512, 512)]:
        config = {**space.default_config, **{f"block_sizes_{i}": n for i, n in enumerate(sizes)}}
        expected = all(limit.check_fn(*(sizes[i] for i in limit.block_indices)) for limit in limits)
        assert space.contains(config) == expected
    assert type(made.optimizer).load(made.optimizer.journal).space == space  # no Python code


def test_seeds_of_the_user_follow_the_default(bound, settings):
    settings(autotune_seed_configs=[helion.Config(block_sizes=[64, 128, 32], num_warps=8)])
    made, best = search(bound, cost, evaluations=3)
    first, second = made.optimizer.trials[:2]
    assert first.config["block_sizes_0"] == 16
    assert [second.config[f"block_sizes_{i}"] for i in range(3)] == [64, 128, 32]
    assert second.config["num_warps"] == 8
    assert cost(best) == made.optimizer.best.value


def test_filtered_configurations_do_not_count(bound, settings):
    settings(autotune_config_filter=lambda c: c if c["num_warps"] < 16 else None)
    calls = []
    made, _ = search(bound, lambda c: calls.append(c) or cost(c), strategy="random_search")
    assert len(calls) == 11  # all that the filter rejects are one evaluation
    assert all(config["num_warps"] < 16 for config in calls)
    rejected = [t for t in made.optimizer.trials if t.failure == "constraints"]
    assert rejected
    assert all(trial.config["num_warps"] >= 16 for trial in rejected)


def test_overrides_are_no_parameters(bound, settings):
    settings(autotune_config_overrides={"num_warps": 2})
    calls = []
    made, best = search(bound, lambda c: calls.append(c) or cost(c))
    assert "num_warps" not in made.optimizer.space.names
    assert {config["num_warps"] for config in [*calls, best]} == {2}


def test_configurations_that_helion_makes_equal_are_measured_once(bound, settings):
    keep = {"block_sizes": [64, 64, 64], "num_warps": 4, "num_stages": 2, "loop_orders": [[0, 1]]}
    generation = bound.config_spec.create_config_generation()
    names = read_space(generation).parameters
    fixed = {n.rpartition("_")[0] if n[-1].isdigit() else n for n in names} - {
        "pid_type",
        "num_sm_multiplier",
    }
    default = generation.unflatten(generation.default_flat()).config
    settings(autotune_config_overrides={**{n: default[n] for n in fixed if n in default}, **keep})
    calls = []
    made, _ = search(bound, lambda c: calls.append(c.to_json()) or 1.0, evaluations=1000)
    assert len(made.optimizer.trials) == 24  # 3 values of pid_type, 8 of num_sm_multiplier
    assert len(calls) == len(set(calls)) < 24


def test_the_time_budget_ends_the_run(bound, settings):
    settings(autotune_budget_seconds=1)
    made, _ = search(bound, cost, evaluations=100_000, strategy="random_search", batch=8)
    assert 0 < len(made.optimizer.trials) < 100_000


def test_an_interrupted_run_keeps_its_seed(bound, settings, tmp_path):
    calls = []

    def interrupted(config):
        calls.append(config)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return cost(config)

    journal = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        search(bound, interrupted, storage=journal)
    settings(autotune_random_seed=7)  # Helion's default is the time
    resumed, _ = search(bound, interrupted, storage=journal)
    settings(autotune_random_seed=0)
    whole, _ = search(bound, cost)
    found, expected = ([dict(t.config) for t in made.optimizer.trials] for made in (resumed, whole))
    assert found == expected
    assert len(calls) == 13


def test_a_kernel_that_never_works_raises_helions_error(bound):
    with pytest.raises(helion.exc.NoConfigFound), pytest.warns(FailureWarning, match="all failed"):
        search(bound, lambda config: "compile")


def test_effort_decides_the_number_of_evaluations(bound):
    from helion.autotuner.effort_profile import get_effort_profile

    counts = [
        BacoAutotuner.get_kwargs_from_profile(get_effort_profile(effort), bound.settings)
        for effort in ("quick", "full")
    ]
    assert counts == [{"evaluations": 50}, {"evaluations": 200}]


def test_a_wrong_option_is_an_error_where_the_kernel_is_decorated():
    with pytest.raises(TypeError, match="'evaluation'"):
        autotuner(evaluation=5)
    with pytest.raises(ValueError, match="'bayes' is unknown"):
        autotuner(strategy="bayes")


def test_the_function_for_a_decorator_uses_helions_cache(bound, monkeypatch):
    made = {}

    class Cache:
        def __init__(self, autotuner, autotuner_factory):
            made.update(first=autotuner, second=autotuner_factory())

    monkeypatch.setitem(helion.autotuner.cache_classes, bound.settings.autotune_cache, Cache)
    autotuner(evaluations=7)(bound, ARGS)
    assert [search._evaluations for search in made.values()] == [7, 7]


def test_kernels_of_others_have_lists_and_wide_integers():
    tunables = {
        "block": PowerOfTwoFragment(16, 256, 64),
        "offset": IntegerFragment(0, 10**6, 5),
        "layouts": ListOf(EnumFragment(("row", "column")), 2),
    }
    seen = []
    best = autotune(
        *(tunables, lambda config: print, (torch.zeros(1),)),
        evaluations=5,
        confirm=None,
        autotune_log_level=0,
        benchmark_provider_cls=provider(lambda c: seen.append(c) or c["offset"] + 1.0),
    )
    assert seen[0].config == {"block": 64, "offset": 5, "layouts": ["row", "row"]}
    assert best["offset"] == min(config["offset"] for config in seen)
    assert {len(config["layouts"]) for config in seen} == {2}
    with pytest.raises(ValueError, match=r"Unknown search kwargs.*evaluation'"):
        autotune(tunables, lambda config: print, (torch.zeros(1),), evaluation=5)
