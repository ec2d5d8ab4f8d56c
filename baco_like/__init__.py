"""Ask/tell optimization for auto-tuning compilers and kernels."""
