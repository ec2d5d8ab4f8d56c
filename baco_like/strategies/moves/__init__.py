"""Changes of configurations: mutation, crossover, selection, and what known constraints make of them."""
