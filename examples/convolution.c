/* A 5 x 5 convolution of a 1024 x 1024 image, for examples/command.toml.
 *
 * Macros set from outside: TILE_Y and TILE_X (block of the image that is done at a time), ORDER (the
 * four loops within a block, outermost first, as in y,x,v,u), UNROLL (of the innermost loop).
 *
 *     convolution time     prints "time: 1.234" in milliseconds
 *     convolution check    exit code 1 if the result is wrong
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE 1024
#define TAPS 5
#define PADDED (SIZE + TAPS - 1)

static float image[PADDED][PADDED], filter[TAPS][TAPS], result[SIZE][SIZE];

#define LOOP_y for (int y = by; y < by + TILE_Y; y++)
#define LOOP_x for (int x = bx; x < bx + TILE_X; x++)
#define LOOP_v for (int v = 0; v < TAPS; v++)
#define LOOP_u for (int u = 0; u < TAPS; u++)
#define TEXT(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLLED(n) TEXT(clang loop unroll_count(n))
#else
#define UNROLLED(n) TEXT(GCC unroll n)
#endif
#define NEST(a, b, c, d) LOOP_##a LOOP_##b LOOP_##c UNROLLED(UNROLL) LOOP_##d
#define NEST_OF(...) NEST(__VA_ARGS__)

static void convolve(void)
{
    memset(result, 0, sizeof result);
    for (int by = 0; by < SIZE; by += TILE_Y)
        for (int bx = 0; bx < SIZE; bx += TILE_X)
            NEST_OF(ORDER) result[y][x] += image[y + v][x + u] * filter[v][u];
}

static int check(void)
{
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++) {
            double sum = 0;
            for (int v = 0; v < TAPS; v++)
                for (int u = 0; u < TAPS; u++) sum += (double)image[y + v][x + u] * filter[v][u];
            if (!(fabs(sum - result[y][x]) <= 1e-4)) {
                fprintf(stderr, "error: result[%d][%d] is %g, not %g\n", y, x, result[y][x], sum);
                return 1;
            }
        }
    return 0;
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    srand(1);
    for (int y = 0; y < PADDED; y++)
        for (int x = 0; x < PADDED; x++) image[y][x] = (float)rand() / (float)RAND_MAX;
    for (int v = 0; v < TAPS; v++)
        for (int u = 0; u < TAPS; u++) filter[v][u] = (float)(v + u) / 100;
    convolve(); /* warm-up */
    if (argc == 2 && !strcmp(argv[1], "check")) return check();
    double start = milliseconds();
    convolve();
    printf("time: %.6f\n", milliseconds() - start);
    return 0;
}
