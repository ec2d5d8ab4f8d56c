"""Any program as an objective: commands that build, run and check it."""
