"""Known constraints: expressions, Python callables and tables of allowed values."""
