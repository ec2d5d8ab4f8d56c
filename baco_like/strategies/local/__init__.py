"""Local searches: multi-start, iterated, tabu search, simulated annealing and genetic local search."""
