"""Run an optimizer against an evaluator: the loop, stopping rules, progress, summary and the run lock."""
