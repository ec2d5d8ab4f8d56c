"""Run configurations. Nothing below imports this package, and it never imports the optimizer.

Where to look, from what every evaluator is to what a TOML file can name; imports run towards the top of this list:

- what an evaluator is: `protocol`, `bench` (one that builds and then measures);
- how a TOML table is read (`table`), how often is measured (`repeats`), which exceptions are failures (`failures`);
- what is known already: `replay` (a table of results), `result_cache` (results of earlier runs);
- other processes: `processes` (start, limit, end them), `worker` (one that answers requests);
- evaluators from parts: `staged` (of a bench), `wrappers` (around any), `executors` (on other machines);
- a Python function: `function` (called here), `isolated` (in processes of its own);
- a program: `command`, with `template` (its command lines), `measure` (what its output says) and `reference` (what it
  should be);
- a kernel that is generated: `kernels` (what they have in common), `c_loop_nest`, `taco`, `halide`, `opencl`, `cuda`;
- `confirmation` measures the best few again; `registry` has the kinds by name.
"""
