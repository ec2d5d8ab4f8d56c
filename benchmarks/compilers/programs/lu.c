/* Dense algebra: factorisations. LU with pivots, Cholesky in blocks, Gram-Schmidt, Jacobi rotations. */
#include "suite.h"

/* macro BLOCK 2 4 8 16 32 64 */
#ifndef BLOCK
#define BLOCK 64
#endif
/* macro UNROLL 1 2 3 4 6 8 */
#ifndef UNROLL
#define UNROLL 1
#endif
/* macro TILE 2 4 8 16 32 64 */
#ifndef TILE
#define TILE 64
#endif
/* macro BY_COLUMNS 0 1 */
#ifndef BY_COLUMNS
#define BY_COLUMNS 0
#endif
/* macro JAM 1 2 4 */
#ifndef JAM
#define JAM 1
#endif
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

static double absolute(double x) { return x < 0 ? -x : x; }

static double root(double x) {
    double guess = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++) {
        double next = 0.5 * (guess + x / guess);
        if (absolute(next - guess) < 1e-14 * guess)
            return next;
        guess = next;
    }
    return guess;
}

int lu(double *a, int *pivots, int n) {
    int sign = 1;
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            if (absolute(a[i * n + k]) > absolute(a[best * n + k]))
                best = i;
        pivots[k] = best;
        if (a[best * n + k] == 0)
            return 0;
        if (best != k) {
            sign = -sign;
            for (int j = 0; j < n; j++) {
                double kept = a[k * n + j];
                a[k * n + j] = a[best * n + j];
                a[best * n + j] = kept;
            }
        }
        for (int i = k + 1; i < n; i++)
            a[i * n + k] /= a[k * n + k];
        for (int jj = k + 1; jj < n; jj += TILE)
            for (int i = k + 1; i < n; i++) {
                double factor = a[i * n + k];
                int end = jj + TILE < n ? jj + TILE : n;
                UNROLLED(UNROLL)
                for (int j = jj; j < end; j++)
                    a[i * n + j] -= factor * a[k * n + j];
            }
    }
    return sign;
}

void lu_solve(const double *a, const int *pivots, double *b, int n) {
    for (int k = 0; k < n; k++) {
        double kept = b[k];
        b[k] = b[pivots[k]];
        b[pivots[k]] = kept;
    }
    for (int i = 1; i < n; i++)
        for (int j = 0; j < i; j++)
            b[i] -= a[i * n + j] * b[j];
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            b[i] -= a[i * n + j] * b[j];
        b[i] /= a[i * n + i];
    }
}

static void update_block(double *a, int n, int from, int to, int row, int end) {
    for (int i = row; i < end; i += JAM)
        for (int j = to; j < n; j++)
            for (int r = i; r < i + JAM && r < end; r++) {
                double sum = 0;
                if (r < j)
                    continue;
                UNROLLED(UNROLL)
                for (int k = from; k < to; k++)
                    sum += a[r * n + k] * a[j * n + k];
                a[r * n + j] -= sum;
            }
}

int cholesky(double *a, int n) {
    for (int kk = 0; kk < n; kk += BLOCK) {
        int end = kk + BLOCK < n ? kk + BLOCK : n;
        for (int k = kk; k < end; k++) {
            if (a[k * n + k] <= 0)
                return 0;
            a[k * n + k] = root(a[k * n + k]);
            for (int i = k + 1; i < n; i++)
                a[i * n + k] /= a[k * n + k];
            for (int j = k + 1; j < end; j++)
                for (int i = j; i < n; i++)
                    a[i * n + j] -= a[i * n + k] * a[j * n + k];
        }
        update_block(a, n, kk, end, end, n);
    }
    return 1;
}

void gram_schmidt(double *q, int n) {
    for (int k = 0; k < n; k++) {
        double *own = &q[k * n];
#if BY_COLUMNS
        for (int p = 0; p < k; p++) {
            double dot = 0;
            for (int i = 0; i < n; i++)
                dot += q[p * n + i] * own[i];
            UNROLLED(UNROLL)
            for (int i = 0; i < n; i++)
                own[i] -= dot * q[p * n + i];
        }
#endif
        double norm = 0;
        for (int i = 0; i < n; i++)
            norm += own[i] * own[i];
        norm = root(norm);
        for (int i = 0; i < n; i++)
            own[i] /= norm;
#if !BY_COLUMNS
        for (int p = k + 1; p < n; p++) {
            double dot = 0, *other = &q[p * n];
            for (int i = 0; i < n; i++)
                dot += other[i] * own[i];
            UNROLLED(UNROLL)
            for (int i = 0; i < n; i++)
                other[i] -= dot * own[i];
        }
#endif
    }
}

/* One sweep of Jacobi rotations of a symmetric matrix; returns the sum of squares outside the diagonal. */
double rotate_all(double *a, int n) {
    for (int p = 0; p < n; p++)
        for (int q = p + 1; q < n; q++) {
            if (absolute(a[p * n + q]) < 1e-12)
                continue;
            double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
            double t = (theta < 0 ? -1 : 1) / (absolute(theta) + root(theta * theta + 1)), c = 1 / root(t * t + 1);
            double s = t * c;
            for (int k = 0; k < n; k++) {
                double x = a[k * n + p], y = a[k * n + q];
                a[k * n + p] = c * x - s * y;
                a[k * n + q] = s * x + c * y;
            }
            for (int k = 0; k < n; k++) {
                double x = a[p * n + k], y = a[q * n + k];
                a[p * n + k] = c * x - s * y;
                a[q * n + k] = s * x + c * y;
            }
        }
    double outside = 0;
    for (int i = 0; i < n * n; i++)
        if (i % (n + 1))
            outside += a[i] * a[i];
    return outside;
}

static void make_definite(double *a, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            a[i * n + j] = a[j * n + i] = next_real() - 0.5 + (i == j ? n : 0);
}

void run(int size) {
    int n = size, *pivots = malloc(sizeof(int) * (size_t)n);
    double *a = malloc(sizeof(double) * (size_t)(n * n)), *b = malloc(sizeof(double) * (size_t)n);
    for (int i = 0; i < n * n; i++)
        a[i] = next_real() - 0.5;
    for (int i = 0; i < n; i++)
        b[i] = next_real();
    mix((uint64_t)lu(a, pivots, n));
    lu_solve(a, pivots, b, n);
    for (int i = 0; i < n; i++)
        mix((uint64_t)(int64_t)(b[i] * 1e3 + 1e6));
    make_definite(a, n);
    mix((uint64_t)cholesky(a, n));
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            mix((uint64_t)(int64_t)(a[i * n + j] * 1e4 + 1e6));
    for (int i = 0; i < n * n; i++)
        a[i] = next_real() + (i % (n + 1) == 0 ? 2 : 0);
    gram_schmidt(a, n);
    for (int i = 0; i < n * n; i += 3)
        mix((uint64_t)(int64_t)(a[i] * 1e4 + 1e6));
    make_definite(a, n / 2);
    mix((uint64_t)(int64_t)(rotate_all(a, n / 2) * 1e2));
    free(pivots);
    free(a);
    free(b);
}
