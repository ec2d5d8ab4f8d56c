"""Kernels on GPUs: CUDA (`baco_like.evaluators.gpu.cuda`) and OpenCL (`baco_like.evaluators.gpu.opencl`)."""
