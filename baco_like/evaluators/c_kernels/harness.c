/* The C program around a kernel: it loads the inputs, checks the result and takes the times.

   It is compiled once, without -ffast-math (which would make the comparison blind to NaN), and linked with every kernel.
   Lines before this one define INPUTS (number of inputs), ELEMENT (type of the result), PARAMETERS and ARGUMENTS (of the
   kernel). Each run has a time limit by a timer signal, so that a kernel that hangs ends even if its parent is dead. */

#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

void kernel(PARAMETERS);

static void *inputs[INPUTS + 1]; /* + 1: C has no empty arrays */
static ELEMENT *output;

static int64_t read_size(FILE *file)
{
    int64_t size;
    if (fread(&size, sizeof size, 1, file) != 1) { perror("arrays"); exit(71); }
    return size;
}

static void *allocate(size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, size ? size : 1)) exit(70);
    return memory;
}

static void *load(FILE *file, size_t size)
{
    void *memory = allocate(size);
    if (size && fread(memory, 1, size, file) != size) { perror("arrays"); exit(71); }
    return memory;
}

/* Run the kernel once; return its seconds. SIGALRM ends the process after `limit` seconds. */
static double timed(double limit)
{
    suseconds_t rest = (suseconds_t)((limit - (double)(time_t)limit) * 1e6);
    struct itimerval timer = {{0, 0}, {(time_t)limit, rest}}, off = {{0, 0}, {0, 0}};
    struct timespec start, end;
    setitimer(ITIMER_REAL, &timer, NULL);
    clock_gettime(CLOCK_MONOTONIC, &start);
    kernel(ARGUMENTS);
    clock_gettime(CLOCK_MONOTONIC, &end);
    setitimer(ITIMER_REAL, &off, NULL);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}

/* Print the largest error; return 1 if it exceeds the tolerance. NaN counts as an infinite error. */
static int check(const ELEMENT *expected, size_t count, double tolerance)
{
    double worst = 0;
    for (size_t q = 0; q < count; q++) {
        double error = fabs((double)output[q] - (double)expected[q]);
        if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    }
    printf("{\"error\": %.6g}\n", isinf(worst) ? 1e300 : worst);
    return !(worst <= tolerance);
}

int main(int argc, char **argv)
{
    if (argc != 8) return 72;
    FILE *file = fopen(argv[1], "rb");
    if (!file) { perror(argv[1]); return 71; }
    for (int i = 0; i < INPUTS; i++) inputs[i] = load(file, (size_t)read_size(file));
    size_t size = (size_t)read_size(file), count = size / sizeof(ELEMENT);
    ELEMENT *expected = load(file, size);
    fclose(file);
    output = allocate(size);
    memset(output, 0xFF, size); /* NaN or -1: no kernel writes these by chance */
    double tolerance = atof(argv[2]);
    int warmups = atoi(argv[3]), repeats = atoi(argv[4]);
    double cold = atof(argv[5]), first = atof(argv[6]), limit = atof(argv[7]);
    timed(cold); /* the result is checked before any time is taken */
    if (check(expected, count, tolerance)) return 3;
    for (int w = 1; w < warmups; w++) timed(limit);
    for (int r = 0; r < repeats; r++) {
        printf("{\"seconds\": %.9e}\n", timed(r ? limit : first));
        fflush(stdout);
    }
    return check(expected, count, tolerance) ? 3 : 0; /* a race may show only in a later run */
}
