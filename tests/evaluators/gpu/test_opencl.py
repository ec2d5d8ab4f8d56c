"""Kernels in OpenCL: the kernels of examples/kernels are correct, and every fault is reported."""

from __future__ import annotations
