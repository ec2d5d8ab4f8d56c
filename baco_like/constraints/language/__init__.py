"""The language of constraints: from text to a tree of allowed nodes to functions. Text is never run as Python."""
