"""Child processes: start them with limits, talk to them, and end them with everything that they leave behind.

- `child`: a process with its group and its mark, which finds processes that left the group; ends them even if this
  process is killed;
- `process`: run a command to its end, with limits of time, memory and CPUs, and a bounded buffer of its output;
- `worker`: a process that answers requests, with its other half `worker_main`;
- `temporary`: temporary folders and programs.

This package and `worker_main` import only the standard library, because every restart of a worker pays for the imports.
"""
