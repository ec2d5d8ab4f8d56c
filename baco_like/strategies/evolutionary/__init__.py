"""Population algorithms: genetic algorithm, differential evolution, particle swarm, firefly algorithm."""
