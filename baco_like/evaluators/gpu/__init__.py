"""Evaluate GPU kernels: OpenCL and CUDA."""
