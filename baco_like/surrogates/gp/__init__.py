"""The Gaussian process over RIPOC distances."""
