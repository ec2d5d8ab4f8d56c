"""The journal of a run: its events, its header, and the files and locks that hold them."""
