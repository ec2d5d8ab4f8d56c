"""The C programs around a kernel of taco's: one loads operands, checks and takes the times, one calls it.

The first is compiled once, without fast-math (which would make the comparison blind to NaN), and linked with every
kernel. The second is compiled with the kernel, whose source brings the type of a tensor along. Each run of the kernel
has a time limit by a timer signal, so that a kernel that hangs dies even where its parent has died.
"""

from __future__ import annotations

_OPERAND = r"""
#include <stdint.h>
#define ORDER 8
struct operand {
    int order, sparse[ORDER];
    int32_t dimensions[ORDER], *positions[ORDER], *coordinates[ORDER];
    double *values;
    size_t count; /* of values */
};
"""

HARNESS = (
    r"""
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
"""
    + _OPERAND
    + r"""
void prepare(struct operand *operands);
int kernel(void);

static void *take(FILE *file, size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size ? size : 1)) exit(70);
    if (size && fread(memory, 1, size, file) != size) { perror("operands"); exit(71); }
    return memory;
}

static int64_t number(FILE *file)
{
    int64_t value;
    if (fread(&value, sizeof value, 1, file) != 1) { perror("operands"); exit(71); }
    return value;
}

static void load(struct operand *operand, FILE *file)
{
    operand->order = (int)number(file);
    for (int m = 0; m < operand->order; m++) operand->dimensions[m] = (int32_t)number(file);
    for (int m = 0; m < operand->order; m++) {
        operand->sparse[m] = (int)number(file);
        size_t positions = (size_t)number(file), coordinates = (size_t)number(file);
        operand->positions[m] = take(file, positions * sizeof(int32_t));
        operand->coordinates[m] = take(file, coordinates * sizeof(int32_t));
    }
    operand->count = (size_t)number(file);
    operand->values = take(file, operand->count * sizeof(double));
}

static double timed(double limit)
{
    suseconds_t rest = (suseconds_t)((limit - (double)(time_t)limit) * 1e6);
    struct itimerval timer = {{0, 0}, {(time_t)limit, rest}}, off = {{0, 0}, {0, 0}};
    struct timespec start, end;
    setitimer(ITIMER_REAL, &timer, NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (kernel()) exit(73);
    clock_gettime(CLOCK_MONOTONIC, &end);
    setitimer(ITIMER_REAL, &off, NULL);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

static int check(const double *result, const double *reference, size_t count, double tolerance)
{
    double most = 0;
    for (size_t q = 0; q < count; q++) {
        double difference = fabs(result[q] - reference[q]);
        if (!(difference <= most)) most = isnan(difference) ? INFINITY : difference;
    }
    if (most <= tolerance) return 0;
    printf("{\"error\": %.6g}\n", isinf(most) ? 1e300 : most);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 8) return 72;
    FILE *file = fopen(argv[1], "rb");
    if (!file) { perror(argv[1]); return 71; }
    struct operand operands[ORDER];
    int count = (int)number(file); /* the first is the result, and comes with what is right */
    for (int o = 0; o < count; o++) load(operands + o, file);
    fclose(file);
    size_t size = operands[0].count;
    double *reference = operands[0].values, *result = malloc((size ? size : 1) * sizeof(double));
    if (!result) return 70;
    memset(result, 0xFF, size * sizeof(double)); /* NaN: what no kernel writes */
    operands[0].values = result;
    prepare(operands);
    double tolerance = atof(argv[2]);
    int warmups = atoi(argv[3]), repeats = atoi(argv[4]);
    double cold = atof(argv[5]), first = atof(argv[6]), limit = atof(argv[7]);
    timed(cold); /* its result is checked before any time is taken */
    if (check(result, reference, size, tolerance)) return 3;
    for (int w = 1; w < warmups; w++) timed(limit);
    for (int r = 0; r < repeats; r++) {
        printf("{\"seconds\": %.9e}\n", timed(r ? limit : first));
        fflush(stdout);
    }
    return check(result, reference, size, tolerance) ? 3 : 0; /* a race may have shown only now */
}
"""
)

_CALLER = (
    '#include "@SOURCE@"\n'
    + _OPERAND
    + r"""
#include <stdlib.h>
static taco_tensor_t *made[@COUNT@];

void prepare(struct operand *operands)
{
    for (int o = 0; o < @COUNT@; o++) {
        struct operand *from = operands + o;
        taco_tensor_t *to = made[o] = calloc(1, sizeof *to);
        to->order = from->order;
        to->csize = sizeof(double);
        to->dimensions = from->dimensions;
        to->mode_ordering = calloc(from->order, sizeof(int32_t));
        to->mode_types = calloc(from->order, sizeof(taco_mode_t));
        to->indices = calloc(from->order, sizeof(uint8_t **));
        for (int m = 0; m < from->order; m++) {
            to->mode_ordering[m] = m;
            to->mode_types[m] = from->sparse[m] ? taco_mode_sparse : taco_mode_dense;
            to->indices[m] = calloc(2, sizeof(uint8_t *));
            to->indices[m][0] = (uint8_t *)(from->sparse[m] ? from->positions[m] : &from->dimensions[m]);
            to->indices[m][1] = (uint8_t *)from->coordinates[m];
        }
        to->vals = (uint8_t *)from->values;
        to->vals_size = (int32_t)from->count;
    }
}

int kernel(void) { return compute(@ARGUMENTS@); }
"""
)


def caller(source: str, count: int) -> str:
    """Return the program that calls a kernel.

    Args:
        source: File name of what taco has written.
        count: Number of tensors, the result included.
    """
    arguments = ", ".join(f"made[{place}]" for place in range(count))
    text = _CALLER.replace("@SOURCE@", source).replace("@COUNT@", str(count))
    return text.replace("@ARGUMENTS@", arguments)
