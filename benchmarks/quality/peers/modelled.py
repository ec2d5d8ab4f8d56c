"""Four kernels on two GPUs, timed by a model: occupancy, arithmetic, traffic, the last wave of blocks, roughness.

The times are computed, not measured. These kernels differ from the recorded ones. Three of the four spaces are too
large for the default to score every configuration. In pnpoly and expdist, no known constraint excludes configurations
that exceed registers or shared memory. The spaces of gemm and hotspot are those published by the auto-tuning
community; those of pnpoly and expdist are similar to published ones. The roughness belongs to the kernel and is equal
on both devices, so their landscapes are similar (rank correlations of 0.7 to 0.97). Each function returns a space and
the cost (ms) of every configuration in the order of ``space.feasible.listed``, NaN for a failure.
"""

from dataclasses import dataclass

import numpy as np

from baco_like import Ordinal, Space

Array = np.ndarray
Values = dict[str, Array]
Pairs = list[tuple[str, str]]

MOST_BLOCKS = 16
"""Blocks that a multiprocessor runs at once, at most."""


@dataclass(frozen=True)
class Device:
    """The properties of a GPU that the model uses.

    Attributes:
        warp: Threads that run in step.
        processors: Multiprocessors.
        threads: Threads of a multiprocessor, at most.
        registers: Registers of a multiprocessor.
        thread_registers: Registers of a thread, at most.
        shared: Bytes of shared memory of a multiprocessor.
        block_shared: Bytes of shared memory of a block, at most.
        flops: Operations per second.
        bandwidth: Bytes per second from memory.
        cache: Bytes per second from the second-level cache.
    """

    warp: int
    processors: int
    threads: int
    registers: int
    thread_registers: int
    shared: int
    block_shared: int
    flops: float
    bandwidth: float
    cache: float

    def occupied(self, threads: Array) -> Array:
        """Return the threads that a block occupies, lanes of a half-filled warp included."""
        return np.ceil(threads / self.warp) * self.warp

    def blocks(self, threads: Array, registers: Array, shared: Array) -> Array:
        """Return how many blocks a multiprocessor runs at once; 0: the block does not fit."""
        lanes = self.occupied(threads)
        held = np.minimum(registers, self.thread_registers) * lanes
        limits = [
            np.floor(self.threads / lanes),
            np.floor(self.registers / held),
            np.where(shared > 0, np.floor(self.shared / np.maximum(shared, 1)), MOST_BLOCKS),
        ]
        most = np.minimum(np.minimum.reduce(limits), MOST_BLOCKS)
        return np.where(shared > self.block_shared, 0, most)

    def reached(self, threads: Array, blocks: Array, independent: Array) -> Array:
        """Return the relative speed of threads with independent operations each; at most 1.15."""
        parallel = np.maximum(blocks * self.occupied(threads) / self.threads, 1e-3)
        parallel = parallel * np.sqrt(independent)
        return 1.15 * parallel / (parallel + 0.15)

    def tail(self, grid: Array, blocks: Array, most: float) -> Array:
        """Return the factor by which the last wave of blocks lengthens the whole, ``most`` at most."""
        waves = grid / (self.processors * np.maximum(blocks, 1))
        return np.minimum(np.ceil(waves) / waves, most)


NARROW = Device(32, 48, 1536, 65536, 255, 102400, 49152, 19e12, 448e9, 1.6e12)
WIDE = Device(64, 110, 2048, 131072, 512, 65536, 65536, 24e12, 1.6e12, 4e12)

Made = tuple[Space, Array]


def gemm(device: Device) -> Made:
    """C = A B of 4096 square matrices: tiles of the block, threads, vectors, staging in shared memory."""
    n = 4096.0
    space = Space(
        {
            **{name: Ordinal([16, 32, 64, 128]) for name in ("MWG", "NWG")},
            "KWG": Ordinal([16, 32]),
            **{name: Ordinal([8, 16, 32]) for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")},
            **{name: Ordinal([1, 2, 4, 8]) for name in ("VWM", "VWN")},
            **{name: Ordinal([0, 1]) for name in ("STRM", "STRN", "SA", "SB")},
        },
        constraints=[
            "MWG % (MDIMC * VWM) == 0",
            "NWG % (NDIMC * VWN) == 0",
            "MWG % (MDIMA * VWM) == 0",
            "NWG % (NDIMB * VWN) == 0",
            "KWG % ((MDIMC * NDIMC) / MDIMA) == 0",
            "KWG % ((MDIMC * NDIMC) / NDIMB) == 0",
            "not (MWG == 128 and NWG == 128 and MDIMC == 8 and NDIMC == 8)",
        ],
    )
    v = _values(space)
    threads = v["MDIMC"] * v["NDIMC"]
    rows, columns = v["MWG"] / v["MDIMC"], v["NWG"] / v["NDIMC"]
    work = rows * columns
    registers = work + rows * np.maximum(1, v["VWM"] / 2) + columns * np.maximum(1, v["VWN"] / 2)
    registers += 24 + 6 * (1 - v["SA"]) + 6 * (1 - v["SB"])
    shared = 4 * v["KWG"] * (v["SA"] * v["MWG"] + v["SB"] * v["NWG"])
    blocks = device.blocks(threads, registers, shared)
    loads = rows / np.minimum(v["VWM"], 4) ** 0.5 * np.where(v["SA"] == 1, 1.0, 1.9)
    loads *= np.where((v["SA"] == 1) & (v["STRM"] == 0) & (v["VWM"] > 1), 1.25, 1.0)
    other = columns / np.minimum(v["VWN"], 4) ** 0.5 * np.where(v["SB"] == 1, 1.0, 1.7)
    other *= np.where((v["SB"] == 1) & (v["STRN"] == 0) & (v["VWN"] > 2), 1.2, 1.0)
    spilt = np.maximum(0, registers - 0.6 * device.thread_registers)
    arithmetic = 2 * n**3 / device.flops * (1 + (1.1 * (loads + other) + 0.8) / work)
    arithmetic *= (1 + spilt / 40) / device.reached(threads, blocks, work)
    for_a = 4 * n**3 / v["NWG"] * np.where(v["SA"] == 1, 1, 1 + 0.4 * (v["NDIMC"] / 8) ** 0.5)
    for_b = 4 * n**3 / v["MWG"] * np.where(v["SB"] == 1, 1, 1 + 0.4 * (v["MDIMC"] / 8) ** 0.5)
    for_a /= np.minimum(1, v["MDIMA"] * np.minimum(v["VWM"], 4) / device.warp) ** 0.4
    for_b /= np.minimum(1, v["NDIMB"] * np.minimum(v["VWN"], 4) / device.warp) ** 0.4
    time = _overlapped(arithmetic, (for_a + for_b) / device.cache)
    time *= 1 + (shared > 0) * 0.08 * (32 / v["KWG"]) * (2 / np.maximum(blocks, 1))
    time *= (
        device.tail((n / v["MWG"]) * (n / v["NWG"]), blocks, 3) * device.occupied(threads) / threads
    )
    pairs = [
        ("VWM", "VWN"),
        ("MDIMA", "VWM"),
        ("NDIMB", "VWN"),
        ("MWG", "MDIMC"),
        ("NWG", "NDIMC"),
        ("STRM", "SA"),
        ("STRN", "SB"),
    ]
    return space, _rough(time, blocks < 1, v, pairs, 0)


def hotspot(device: Device) -> Made:
    """A stencil of 4096 x 4096 points that takes several steps in time before it writes."""
    n, steps = 4096.0, 10.0
    space = Space(
        {
            "block_size_x": Ordinal([1, 2, 4, 8, 16, *range(32, 1025, 32)]),
            "block_size_y": Ordinal([1, 2, 4, 8, 16, 32]),
            **{f"tile_size_{axis}": Ordinal(list(range(1, 11))) for axis in "xy"},
            "temporal_tiling_factor": Ordinal(list(range(1, 11))),
            "loop_unroll_factor_t": Ordinal(list(range(1, 11))),
            "sh_power": Ordinal([0, 1]),
        },
        constraints=[
            "block_size_x * block_size_y >= 32",
            "temporal_tiling_factor % loop_unroll_factor_t == 0",
            "block_size_x * block_size_y <= 1024",
            "(block_size_x * tile_size_x + temporal_tiling_factor * 2) * (block_size_y * tile_size_y + "
            "temporal_tiling_factor * 2) * (2 + sh_power) * 4 <= 49152",
        ],
    )
    v = _values(space)
    bx, by, tx, ty, fused, unroll, power = v.values()
    threads, width, height = bx * by, bx * tx, by * ty
    registers = 22 + tx * ty * 2.5 + unroll * 3 + (1 - power) * tx * ty
    shared = (width + 2 * fused) * (height + 2 * fused) * (2 + power) * 4
    blocks = device.blocks(threads, registers, shared)
    passes, grid = np.ceil(steps / fused), np.ceil(n / width) * np.ceil(n / height)
    read = np.ceil((width + 2 * fused) / bx) * bx * np.ceil((height + 2 * fused) / by) * by
    moved = passes * grid * (read * 8 + width * height * 4) / device.bandwidth
    moved /= np.where(bx >= device.warp, 1.0, (bx / device.warp) ** 0.7)
    moved /= np.where(bx % device.warp == 0, 1.0, 0.9)
    moved /= np.minimum(1, blocks * device.occupied(threads) / device.threads * 2.2 + 0.15)
    updated = np.ceil((width + fused) / bx) * bx * np.ceil((height + fused) / by) * by
    arithmetic = passes * grid * fused * updated * 16 / (0.3 * device.flops)
    arithmetic *= (1 + 0.25 / unroll) * (1 + 0.1 * (1 - power))
    arithmetic /= device.reached(threads, blocks, tx * ty)
    arithmetic *= 1 + 0.12 * ((width % 32 == 0) & (tx % 2 == 0))
    time = _overlapped(arithmetic, moved) * device.tail(grid, blocks, 4)
    time = time * device.occupied(threads) / threads + passes * 4e-6
    pairs = [
        ("tile_size_x", "tile_size_y"),
        ("temporal_tiling_factor", "loop_unroll_factor_t"),
        ("block_size_x", "tile_size_x"),
    ]
    return space, _rough(time, blocks < 1, v, pairs, 1)


def pnpoly(device: Device) -> Made:
    """Which of 20 million points lie in a polygon of 600 vertices; too many registers fail at launch."""
    space = Space(
        {
            "between_method": Ordinal([0, 1, 2, 3]),
            "block_size_x": Ordinal([32 * i for i in range(1, 32)]),
            "tile_size": Ordinal([1, *range(2, 21, 2)]),
            "use_method": Ordinal([0, 1, 2]),
        }
    )
    v = _values(space)
    between, threads, tile, use = v.values()
    between, use = between.astype(int), use.astype(int)
    each = np.array([0, 0.6, 0.2, 1.0])[between] + np.array([0, 0.8, 0.4])[use]
    registers = 14 + tile * (2.4 + each)
    blocks = device.blocks(threads, registers, np.zeros(len(threads)))
    operations = np.array([9, 8, 11, 7.5])[between] * np.array([1, 1.15, 0.93])[use]
    operations += np.random.default_rng(2).normal(0, 0.6, (4, 3))[between, use]
    time = 2e7 * 600 * operations * (1 + 1.3 / tile) / (0.4 * device.flops)
    time *= (1 + np.maximum(0, registers - 60) / 300) / device.reached(threads, blocks, tile)
    time *= device.tail(np.ceil(2e7 / (threads * tile)), blocks, 3)
    time *= device.occupied(threads) / threads
    fails = (blocks < 1) | (registers * threads > 0.85 * device.registers)
    pairs = [("tile_size", "use_method"), ("between_method", "tile_size")]
    return space, _rough(time, fails, v, pairs, 2)


def expdist(device: Device) -> Made:
    """Distances between all pairs of 32,768 points; a quarter (wide) or a third (narrow) of the space fails."""
    n = 32768.0
    space = Space(
        {
            "block_size_x": Ordinal([32, 64, 128, 256, 512, 1024]),
            "block_size_y": Ordinal([1, 2, 4, 8, 16, 32]),
            **{f"tile_size_{axis}": Ordinal(list(range(1, 9))) for axis in "xy"},
            "use_shared_mem": Ordinal([0, 1, 2]),
            "loop_unroll_factor_x": Ordinal(list(range(9))),
            "n_y_blocks": Ordinal([2**i for i in range(11)]),
        },
        constraints=[
            "loop_unroll_factor_x == 0 or tile_size_x % loop_unroll_factor_x == 0",
            "block_size_x * block_size_y <= 2048",
            "(use_shared_mem == 0) == (n_y_blocks == 1)",
        ],
    )
    v = _values(space)
    bx, by, tx, ty, staged, unroll, y_blocks = v.values()
    threads, work = bx * by, tx * ty
    registers = 26 + work * 1.6 + unroll * 2 + (staged == 2) * 8
    shared = np.where(staged == 1, (bx * tx + by * ty) * 24, (staged == 2) * bx * tx * 16)
    blocks = device.blocks(threads, registers, shared)
    grid = np.ceil(n / (bx * tx)) * np.where(staged > 0, y_blocks, np.ceil(n / (by * ty)))
    time = n * n * 12 / (0.5 * device.flops) * (1 + 0.2 / np.maximum(unroll, 0.5))
    time *= 1 + 2.0 / work + 0.6 * (staged == 0) * (tx + ty) / work
    time /= device.reached(threads, blocks, work)
    time = time * device.tail(grid, blocks, 8) + grid * 7.5e-8 + 3e-6 * np.log2(y_blocks + 1)
    fails = (threads > 1024) | (blocks < 1)
    pairs = [
        ("tile_size_x", "tile_size_y"),
        ("use_shared_mem", "loop_unroll_factor_x"),
        ("block_size_x", "block_size_y"),
    ]
    return space, _rough(time, fails, v, pairs, 3)


def _values(space: Space) -> Values:
    """Return the values of every parameter in the feasible rows, ``(n,)`` each."""
    codes = space.feasible.listed
    found = {}
    for name, parameter in space.parameters.items():
        assert isinstance(parameter, Ordinal)
        at = codes[:, space.columns[name].start].astype(int)
        found[name] = np.array(parameter.values, dtype=float)[at]
    return found


def _overlapped(arithmetic: Array, memory: Array) -> Array:
    """Return the time of two overlapping phases; most of the shorter one is hidden."""
    return np.maximum(arithmetic, memory) + 0.35 * np.minimum(arithmetic, memory)


def _rough(time: Array, fails: Array, values: Values, pairs: Pairs, seed: int) -> Array:
    """Return milliseconds with unexplained variation: a random factor for each pair of values and for each row."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(0, 0.02, len(time))
    for pair in pairs:
        first, second = (np.unique(values[name], return_inverse=True)[1] for name in pair)
        factor += rng.normal(0, 0.05, (first.max() + 1, second.max() + 1))[first, second]
    return np.where(fails, np.nan, 1e3 * time * np.exp(factor))
