"""Readers of space files of other tools; each returns the ingredients of a space, a `SpaceDescription`."""
