"""Conformance suites, one per protocol, and test doubles; imported by nothing in the package."""
