"""The C program around a kernel: it loads the inputs, checks the result and takes the times.

It is compiled once, without fast-math (which would make the comparison blind to NaN), and linked
with every kernel. Each run of the kernel has a time limit by a timer signal, so that a kernel that
hangs dies even where its parent has died.
"""

from __future__ import annotations

HARNESS = r"""
#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

void kernel(const float *restrict A, const float *restrict B, float *restrict C);

static float *load(const char *path, size_t count)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, count * sizeof(float))) exit(70);
    if (!path) return memory;
    FILE *file = fopen(path, "rb");
    if (!file || fread(memory, sizeof(float), count, file) != count) { perror(path); exit(71); }
    fclose(file);
    return memory;
}

/* Largest difference, or infinity if any element is not a number. */
static double worst(const float *C, const float *R, size_t count)
{
    double most = 0;
    for (size_t q = 0; q < count; q++) {
        double difference = fabs((double)C[q] - (double)R[q]);
        if (!(difference <= most)) most = isnan(difference) ? INFINITY : difference;
    }
    return most;
}

static double timed(const float *A, const float *B, float *C, double limit)
{
    suseconds_t rest = (suseconds_t)((limit - (double)(time_t)limit) * 1e6);
    struct itimerval timer = {{0, 0}, {(time_t)limit, rest}}, off = {{0, 0}, {0, 0}};
    struct timespec start, end;
    setitimer(ITIMER_REAL, &timer, NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    kernel(A, B, C);
    clock_gettime(CLOCK_MONOTONIC, &end);
    setitimer(ITIMER_REAL, &off, NULL);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

static int check(const float *C, const float *R, size_t count, double tolerance)
{
    double error = worst(C, R, count);
    if (error <= tolerance) return 0;
    printf("{\"error\": %.6g}\n", isinf(error) ? 1e300 : error);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 11) return 72;
    size_t size = strtoul(argv[1], NULL, 10), count = size * size;
    float *A = load(argv[2], count), *B = load(argv[3], count), *R = load(argv[4], count);
    float *C = load(NULL, count);
    double tolerance = atof(argv[5]);
    int warmups = atoi(argv[6]), repeats = atoi(argv[7]);
    double cold = atof(argv[8]), first = atof(argv[9]), limit = atof(argv[10]);
    timed(A, B, C, cold); /* its result is checked before any time is taken */
    if (check(C, R, count, tolerance)) return 3;
    for (int w = 1; w < warmups; w++) timed(A, B, C, limit);
    for (int r = 0; r < repeats; r++) {
        printf("{\"seconds\": %.9e}\n", timed(A, B, C, r ? limit : first));
        fflush(stdout);
    }
    return check(C, R, count, tolerance) ? 3 : 0; /* a race may have shown only now */
}
"""
