"""Where the events of a run are kept."""
