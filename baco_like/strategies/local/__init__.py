"""Local searches: multi-start, iterated, tabu, annealing, genetic, and what they are made of."""
