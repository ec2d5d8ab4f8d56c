"""How the configurations that satisfy the known constraints are counted, tested, sampled and ranked."""
