/* Stencils: Jacobi in two dimensions, a wave, heat in three dimensions, Gauss-Seidel. */
#include "suite.h"

/* macro TILE_I 4 8 16 32 64 128 */
#ifndef TILE_I
#define TILE_I 128
#endif
/* macro TILE_J 4 8 16 32 64 128 */
#ifndef TILE_J
#define TILE_J 128
#endif
/* macro UNROLL 1 2 3 4 6 8 */
#ifndef UNROLL
#define UNROLL 1
#endif
/* macro TILE_K 2 4 8 16 32 */
#ifndef TILE_K
#define TILE_K 32
#endif
/* macro FUSE 0 1 */
#ifndef FUSE
#define FUSE 0
#endif
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

static int least(int a, int b) { return a < b ? a : b; }

double jacobi(const double *restrict from, double *restrict to, int n) {
    double change = 0;
    for (int ii = 1; ii < n - 1; ii += TILE_I)
        for (int jj = 1; jj < n - 1; jj += TILE_J)
            for (int i = ii; i < least(ii + TILE_I, n - 1); i++) {
                int end = least(jj + TILE_J, n - 1);
                UNROLLED(UNROLL)
                for (int j = jj; j < end; j++) {
                    const double *at = &from[i * n + j];
                    to[i * n + j] = 0.25 * (at[-n] + at[n] + at[-1] + at[1]);
#if FUSE
                    double moved = to[i * n + j] - *at;
                    change += moved * moved;
#endif
                }
            }
#if !FUSE
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            double moved = to[i * n + j] - from[i * n + j];
            change += moved * moved;
        }
#endif
    return change;
}

void wave(const float *restrict before, const float *restrict now, float *restrict next, int n) {
    for (int jj = 2; jj < n - 2; jj += TILE_J)
        for (int i = 2; i < n - 2; i++) {
            int end = least(jj + TILE_J, n - 2);
            UNROLLED(UNROLL)
            for (int j = jj; j < end; j++) {
                const float *at = &now[i * n + j];
                float laplace = 16.0f * (at[-1] + at[1] + at[-n] + at[n]);
                laplace -= at[-2] + at[2] + at[-2 * n] + at[2 * n] + 60.0f * at[0];
                next[i * n + j] = 2.0f * at[0] - before[i * n + j] + 0.01f * laplace;
            }
        }
}

void heat(const double *restrict from, double *restrict to, int n) {
    int plane = n * n;
    for (int kk = 1; kk < n - 1; kk += TILE_K)
        for (int ii = 1; ii < n - 1; ii += TILE_I)
            for (int k = kk; k < least(kk + TILE_K, n - 1); k++)
                for (int i = ii; i < least(ii + TILE_I, n - 1); i++) {
                    UNROLLED(UNROLL)
                    for (int j = 1; j < n - 1; j++) {
                        int c = k * plane + i * n + j;
                        double around = from[c - 1] + from[c + 1] + from[c - n] + from[c + n];
                        to[c] = from[c] + 0.1 * (around + from[c - plane] + from[c + plane] - 6.0 * from[c]);
                    }
                }
}

void gauss_seidel(double *grid, int n, double factor) {
    for (int colour = 0; colour < 2; colour++)
        for (int ii = 1; ii < n - 1; ii += TILE_I)
            for (int i = ii; i < least(ii + TILE_I, n - 1); i++) {
                UNROLLED(UNROLL)
                for (int j = 1 + (i + colour) % 2; j < n - 1; j += 2) {
                    double *at = &grid[i * n + j];
                    *at += factor * (0.25 * (at[-n] + at[n] + at[-1] + at[1]) - *at);
                }
            }
}

static void set_border(double *grid, int n) {
    for (int i = 0; i < n * n; i++)
        grid[i] = 0;
    for (int i = 0; i < n; i++) {
        grid[i] = 1.0;
        grid[i * n] = 0.5;
        grid[i * n + n - 1] = (double)i / n;
    }
}

static double total(const double *values, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

void run(int size) {
    int n = size, m = size / 4 + 4, cells = n * n > m * m * m ? n * n : m * m * m;
    double *a = calloc((size_t)cells, sizeof(double)), *b = calloc((size_t)cells, sizeof(double));
    float *waves = calloc(3 * (size_t)(n * n), sizeof(float)), *levels[3] = {waves, waves + n * n, waves + 2 * n * n};
    set_border(a, n);
    set_border(b, n);
    for (int step = 0; step < 6; step++) {
        mix_real(jacobi(a, b, n));
        double *kept = a;
        a = b;
        b = kept;
    }
    gauss_seidel(a, n, 1.5);
    mix_real(total(a, n * n));
    levels[1][n / 2 * n + n / 2] = 1.0f;
    for (int step = 0; step < 6; step++) {
        wave(levels[0], levels[1], levels[2], n);
        float *kept = levels[0];
        levels[0] = levels[1];
        levels[1] = levels[2];
        levels[2] = kept;
    }
    for (int i = 0; i < n * n; i += 5)
        mix_real((double)(int)(levels[1][i] * 1000.0f));
    for (int i = 0; i < m * m * m; i++)
        a[i] = b[i] = next_real();
    for (int step = 0; step < 4; step++) {
        heat(a, b, m);
        double *kept = a;
        a = b;
        b = kept;
    }
    mix_real(total(a, m * m * m));
    free(a);
    free(b);
    free(waves);
}
