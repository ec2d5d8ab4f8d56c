"""Where other programs plug in: wire protocols and file formats of compilers and other autotuners."""
