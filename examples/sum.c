/* The sum of 1,000,000 numbers, for examples/limits.py: faster methods are less exact.
 *
 * Macros set from outside: REAL (float or double, the type of the sums), LANES (number of separate sums), KAHAN (1: each
 * sum is compensated as by Kahan, 1965).
 *
 * It prints "time: 1.234" in milliseconds, and "error: 1e-7", the error of the result relative to its value.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <time.h>

#define COUNT 1000000

static float numbers[COUNT];

static double sum(void)
{
    REAL total[LANES] = {0}, lost[LANES] = {0};
    for (int i = 0; i + LANES <= COUNT; i += LANES)
        for (int k = 0; k < LANES; k++) {
#if KAHAN
            REAL y = numbers[i + k] - lost[k], t = total[k] + y;
            lost[k] = (t - total[k]) - y;
            total[k] = t;
#else
            total[k] += numbers[i + k];
#endif
        }
    double all = 0;
    for (int k = 0; k < LANES; k++) all += total[k];
    for (int i = COUNT - COUNT % LANES; i < COUNT; i++) all += numbers[i];
    return all;
}

int main(void)
{
    long double exact = 0;
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = 1.0f / (float)(1 + i % 1000);
        exact += numbers[i];
    }
    double result = 0, best = 1e9;
    for (int run = 0; run < 5; run++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        result = sum();
        clock_gettime(CLOCK_MONOTONIC, &end);
        double ms = 1e3 * (double)(end.tv_sec - begin.tv_sec) + 1e-6 * (double)(end.tv_nsec - begin.tv_nsec);
        if (ms < best) best = ms;
    }
    printf("time: %.6f\nerror: %.3g\n", best, (double)fabsl((result - exact) / exact));
    return 0;
}
