"""What ``baco-like`` can be asked to do, a module each: its options (``add_to``) and what it then does.

A command's function takes the parsed options and returns the exit code; it imports what it needs when it is called.
"""
