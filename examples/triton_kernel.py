"""Tune a Triton kernel; without a CUDA device Triton's interpreter runs it, slowly.

pip install 'baco-like[triton]'
python examples/triton_kernel.py [EVALUATIONS]
"""

import os
import sys

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

import triton
import triton.language as tl

from baco_like.integrations import triton as baco


@baco.autotune(
    {"BLOCK": [256, 128, 512, 1024, 2048], "num_warps": [4, 1, 2, 8]},
    key=["n"],
    constraints=["BLOCK <= 4 * n", "BLOCK >= 32 * num_warps"],
    evaluations=int(sys.argv[1]) if len(sys.argv) > 1 else 12,
    file="tuned.json",
    outputs=["out"],
    reference=lambda x, y, out, n: x + y,
)
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    total = tl.load(x + place, mask=inside) + tl.load(y + place, mask=inside)
    tl.store(out + place, total, mask=inside)


device = "cuda" if torch.cuda.is_available() else "cpu"
x, y = torch.rand(2, 10_000, device=device)
out = torch.empty_like(x)
add[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, x.numel())
assert torch.equal(out, x + y)
print("best:", add.best_config)
