"""A Python function as an objective: called in this process, by an executor, or in isolated worker processes."""
