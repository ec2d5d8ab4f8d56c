/* Dense algebra: matrix products in tiles, with a transposed factor, a product with a vector, a power iteration. */
#include "suite.h"

/* macro TILE_I 2 4 8 16 32 64 */
#ifndef TILE_I
#define TILE_I 64
#endif
/* macro TILE_J 2 4 8 16 32 64 */
#ifndef TILE_J
#define TILE_J 64
#endif
/* macro TILE_K 2 4 8 16 32 64 */
#ifndef TILE_K
#define TILE_K 64
#endif
/* macro UNROLL 1 2 3 4 6 8 */
#ifndef UNROLL
#define UNROLL 1
#endif
/* macro ORDER 0 1 2 */
#ifndef ORDER
#define ORDER 0
#endif
/* macro ROWS 1 2 4 */
#ifndef ROWS
#define ROWS 1
#endif
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

static int least(int a, int b) { return a < b ? a : b; }

static void tile_product(const double *restrict a, const double *restrict b, double *restrict c, int n, int i0, int i1,
                         int j0, int j1, int k0, int k1) {
#if ORDER == 0
    for (int i = i0; i < i1; i++)
        for (int j = j0; j < j1; j++) {
            double sum = c[i * n + j];
            UNROLLED(UNROLL)
            for (int k = k0; k < k1; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
#elif ORDER == 1
    for (int i = i0; i < i1; i++)
        for (int k = k0; k < k1; k++) {
            double factor = a[i * n + k];
            UNROLLED(UNROLL)
            for (int j = j0; j < j1; j++)
                c[i * n + j] += factor * b[k * n + j];
        }
#else
    for (int j = j0; j < j1; j++)
        for (int k = k0; k < k1; k++) {
            double factor = b[k * n + j];
            UNROLLED(UNROLL)
            for (int i = i0; i < i1; i++)
                c[i * n + j] += a[i * n + k] * factor;
        }
#endif
}

void product(const double *a, const double *b, double *c, int n) {
    memset(c, 0, sizeof(double) * (size_t)(n * n));
    for (int ii = 0; ii < n; ii += TILE_I)
        for (int jj = 0; jj < n; jj += TILE_J)
            for (int kk = 0; kk < n; kk += TILE_K)
                tile_product(a, b, c, n, ii, least(ii + TILE_I, n), jj, least(jj + TILE_J, n), kk,
                             least(kk + TILE_K, n));
}

void product_of_rows(const double *restrict a, const double *restrict b, double *restrict c, int n) {
    for (int i = 0; i < n; i += ROWS)
        for (int j = 0; j < n; j++) {
            double sums[ROWS] = {0};
            UNROLLED(UNROLL)
            for (int k = 0; k < n; k++)
                for (int r = 0; r < ROWS; r++)
                    sums[r] += a[least(i + r, n - 1) * n + k] * b[j * n + k];
            for (int r = 0; r < ROWS && i + r < n; r++)
                c[(i + r) * n + j] = sums[r];
        }
}

void transpose(const double *restrict in, double *restrict out, int n) {
    for (int ii = 0; ii < n; ii += TILE_I)
        for (int jj = 0; jj < n; jj += TILE_J)
            for (int i = ii; i < least(ii + TILE_I, n); i++)
                for (int j = jj; j < least(jj + TILE_J, n); j++)
                    out[j * n + i] = in[i * n + j];
}

void multiply_vector(const double *restrict a, const double *restrict x, double *restrict y, int n) {
    for (int i = 0; i < n; i++) {
        double sum = 0;
        UNROLLED(UNROLL)
        for (int j = 0; j < n; j++)
            sum += a[i * n + j] * x[j];
        y[i] = sum;
    }
}

static double largest(const double *x, int n) {
    double found = 0;
    for (int i = 0; i < n; i++) {
        double value = x[i] < 0 ? -x[i] : x[i];
        if (value > found)
            found = value;
    }
    return found;
}

/* Returns an estimate of the largest eigenvalue. */
double power_iteration(const double *a, double *x, double *y, int n, int steps) {
    double value = 0;
    for (int i = 0; i < n; i++)
        x[i] = 1;
    for (int step = 0; step < steps; step++) {
        multiply_vector(a, x, y, n);
        value = largest(y, n);
        for (int i = 0; i < n; i++)
            x[i] = y[i] / value;
    }
    return value;
}

static double trace(const double *a, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i * n + i];
    return sum;
}

void run(int size) {
    size_t cells = (size_t)(size * size);
    double *a = malloc(sizeof(double) * cells), *b = malloc(sizeof(double) * cells), *c = malloc(sizeof(double) * cells);
    double *x = malloc(sizeof(double) * (size_t)size), *y = malloc(sizeof(double) * (size_t)size);
    for (size_t i = 0; i < cells; i++) {
        a[i] = next_real();
        b[i] = next_real() - 0.5;
    }
    product(a, b, c, size);
    for (size_t i = 0; i < cells; i += 3)
        mix_real(c[i]);
    mix_real(trace(c, size));
    product_of_rows(a, b, c, size);
    for (size_t i = 0; i < cells; i += 3)
        mix_real(c[i]);
    transpose(c, b, size);
    mix_real(b[cells / 3]);
    mix_real(power_iteration(a, x, y, size, 8));
    free(a);
    free(b);
    free(c);
    free(x);
    free(y);
}
