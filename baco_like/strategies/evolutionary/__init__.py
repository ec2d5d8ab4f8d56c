"""Algorithms that breed generations: genetic, differential evolution, particle swarm, firefly."""
