"""Conformance suites, one per protocol, and test doubles; imported by nothing in the package."""

from unittest import TestCase

assert_raises = TestCase().assertRaises
"""As `unittest.TestCase.assertRaises`: the suites need no test framework."""
