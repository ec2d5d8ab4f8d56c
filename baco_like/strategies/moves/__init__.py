"""Operators of population algorithms: mutation, crossover, selection and constraint handling."""
