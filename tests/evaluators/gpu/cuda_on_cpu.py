"""Run a CUDA kernel on the CPU: a thread for each CUDA thread, and one block at a time."""

import subprocess

import numpy as np

from baco_like.evaluators.command.template import to_text

HEADER = r"""
#include <pthread.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
struct dim { unsigned x, y; };
struct alignas(8) float2 { float x, y; };
static thread_local dim threadIdx, blockIdx;
static pthread_barrier_t barrier;
#define __global__
#define __constant__ static
#define __shared__ static
#define __launch_bounds__(...)
#define __syncthreads() pthread_barrier_wait(&barrier)
#define __ldg(place) (*(place))
using std::max;
using std::min;
static void *array(size_t bytes, const char *file = nullptr)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(memory, 0xFF, bytes);
    FILE *from = file ? fopen(file, "rb") : nullptr;
    if (file && (!from || fread(memory, 1, bytes, from) != bytes)) abort();
    return memory;
}
struct any { /* converts to the type of whatever argument it is */
    void *place;
    template <class T> operator T *() const { return (T *)place; }
};
"""

LAUNCH = r"""
template <class... A> static void launched(unsigned x, unsigned y, A... arguments)
{
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < @X@ * @Y@; t++)
        threads.emplace_back([=] {
            threadIdx = {t % @X@, t / @X@};
            blockIdx = {x, y};
            @KERNEL@(arguments...);
        });
    for (auto &thread : threads) thread.join();
}
"""


def run(problem, config, size, arrays, expected, folder):
    """Return the output of the kernel of a configuration, launched as by `baco_like.evaluators.kernels.cuda`."""
    grid, block = ((*shape, 1)[:2] for shape in problem.launch(config, size))
    launch = LAUNCH.replace("@X@", str(block[0])).replace("@Y@", str(block[1]))
    source = [HEADER, problem.SOURCE, launch.replace("@KERNEL@", problem.KERNEL), "int main()\n{"]
    source.append(f"pthread_barrier_init(&barrier, nullptr, {block[0] * block[1]});")
    source += _arrays(problem, size, arrays, expected, folder)
    for numbers in problem.launches(config, size) if hasattr(problem, "launches") else [()]:
        source.append(
            f"for (unsigned y = 0; y < {grid[1]}; y++) for (unsigned x = 0; x < {grid[0]}; x++)"
        )
        source.append(
            f"launched(x, y, {', '.join([*_arguments(problem, size, arrays), *map(str, numbers)])});"
        )
    source.append(
        f'FILE *out = fopen("result", "wb"); fwrite(result.place, 1, {expected.nbytes}, out); fclose(out); }}'
    )
    (folder / "kernel.cpp").write_text("\n".join(source))
    macros = {**config, **problem.macros(size)}
    defined = [f"-D{name}={to_text(value)}" for name, value in macros.items()]
    build = ["c++", "-std=c++17", "-O1", "-w", "-pthread", *defined, "kernel.cpp", "-o", "kernel"]
    subprocess.run(build, cwd=folder, check=True)
    subprocess.run(["./kernel"], cwd=folder, check=True, timeout=60)
    return np.fromfile(folder / "result", dtype=expected.dtype).reshape(expected.shape)


def _arrays(problem, size, arrays, expected, folder):
    constants = {index: name for name, index in getattr(problem, "CONSTANTS", {}).items()}
    for index, values in enumerate(arrays):
        (folder / f"input{index}").write_bytes(values.tobytes())
        made = f'array({values.nbytes}, "input{index}")'
        if index in constants:
            yield f"memcpy((void *){constants[index]}, {made}, {values.nbytes});"
        else:
            yield f"any input{index} = {{{made}}};"
    yield f"any result = {{array({expected.nbytes})}};"
    for index, values in enumerate(_scratch(problem, size)):
        yield f"any scratch{index} = {{array({values.nbytes})}};"


def _arguments(problem, size, arrays):
    constants = set(getattr(problem, "CONSTANTS", {}).values())
    inputs = [f"input{index}" for index in range(len(arrays)) if index not in constants]
    return [*inputs, "result", *(f"scratch{i}" for i in range(len(_scratch(problem, size))))]


def _scratch(problem, size):
    return problem.scratch(size) if hasattr(problem, "scratch") else ()
