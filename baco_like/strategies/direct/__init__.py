"""Algorithms that call their objective themselves: pattern search, Torczon, basin hopping, dual annealing."""
