"""Convert spaces to and from ConfigSpace."""
