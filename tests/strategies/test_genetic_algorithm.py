import pytest

from baco_like.strategies.registry import create


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"constraints": "ignored"},
            "constraints 'ignored' is unknown; choose from aware, penalty",
        ),
        ({"crossover": "three_point"}, "crossover 'three_point' is unknown"),
        ({"selection": "roulette"}, "selection 'roulette' is unknown"),
        ({"population": 1}, "population 1 is too small"),
        ({"tournament": 0}, "tournament 0 is too small"),
        ({"mutation_chance": 0}, "mutation_chance 0 is too small"),
        ({"mutation": 1.5}, "mutation 1.5 is no probability"),
        ({"mutation": 0.1, "mutation_chance": 5}, "exclude each other"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        create("genetic_algorithm", settings)
