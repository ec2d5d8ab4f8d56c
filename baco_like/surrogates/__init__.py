"""Models of the objective and of feasibility, fitted to observations."""
