"""Run configurations. Nothing below imports this package, and it never imports the optimizer."""
