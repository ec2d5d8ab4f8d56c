"""Kernels in Helion for `helion_spaces.py`; only their search spaces are used, so they are never run."""

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    rows, inner = left.size()
    columns = right.size(1)
    out = torch.empty([rows, columns], dtype=left.dtype, device=left.device)
    for row, column in hl.tile([rows, columns]):
        total = hl.zeros([row, column], dtype=torch.float32)
        for part in hl.tile(inner):
            total = torch.addmm(total, left[row, part], right[part, column])
        out[row, column] = total.to(left.dtype)
    return out


@helion.kernel(static_shapes=True)
def softmax(values: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(values)
    for row in hl.tile(values.size(0)):
        block = values[row, :].to(torch.float32)
        scaled = torch.exp(block - torch.amax(block, dim=1, keepdim=True))
        out[row, :] = (scaled / torch.sum(scaled, dim=1, keepdim=True)).to(values.dtype)
    return out


@helion.kernel(static_shapes=True)
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    heads, length, size = query.size()
    size = hl.specialize(size)
    out = torch.empty_like(query)
    for head, row in hl.tile([heads, length]):
        queries = query[head, row, :]
        highest = hl.full([head, row], float("-inf"), dtype=torch.float32)
        weight = hl.zeros([head, row], dtype=torch.float32)
        total = hl.zeros([head, row, size], dtype=torch.float32)
        for column in hl.tile(length):
            scores = torch.bmm(queries, key[head, column, :].transpose(1, 2)).to(torch.float32)
            new_highest = torch.maximum(highest, torch.amax(scores, -1))
            scores = torch.exp(scores - new_highest[:, :, None])
            decay = torch.exp(highest - new_highest)
            weight = weight * decay + torch.sum(scores, -1)
            total = total * decay[:, :, None]
            total = total + torch.bmm(scores.to(value.dtype), value[head, column, :])
            highest = new_highest
        out[head, row, :] = (total / weight[:, :, None]).to(out.dtype)
    return out


def bound(name: str):
    """Return a kernel bound to arguments of the size that is tuned."""
    half = torch.float16
    square = torch.empty(2048, 2048, dtype=half)
    heads = torch.empty(32, 1024, 64, dtype=half)
    args = {"matmul": (square, square), "softmax": (square,), "attention": (heads, heads, heads)}
    kernel = {"matmul": matmul, "softmax": softmax, "attention": attention}[name]
    return kernel.bind(args[name]), args[name]
