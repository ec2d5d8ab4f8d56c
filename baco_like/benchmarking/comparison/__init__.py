"""Strategies against each other on recorded spaces: the runs, where they are kept, the table and the plots."""
