/* Calls the layer, checks its result against plain loops, and prints the time of the fastest of some calls in ms. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { N = 128, CALLS = 5 };

typedef struct { float *base, *data; int64_t offset, size[1], stride[1]; } Vector;
typedef struct { float *base, *data; int64_t offset, size[2], stride[2]; } Matrix;

void _mlir_ciface_layer(Matrix *x, Matrix *w, Vector *b, Matrix *out);

static float x[N][N], w[N][N], b[N], out[N][N];

static Matrix matrix(float values[N][N])
{
    return (Matrix){values[0], values[0], 0, {N, N}, {N, 1}};
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(void)
{
    Matrix mx = matrix(x), mw = matrix(w), mout = matrix(out);
    Vector mb = {b, b, 0, {N}, {1}};
    double best = INFINITY;
    for (int i = 0; i < N; i++) {
        b[i] = 5 - i % 11;
        for (int j = 0; j < N; j++) {
            x[i][j] = (i * 7 + j) % 5 - 2;
            w[i][j] = (i + j * 3) % 7 - 3;
        }
    }
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                out[i][j] = NAN; /* a call that writes nothing is found */
        double start = milliseconds();
        _mlir_ciface_layer(&mx, &mw, &mb, &mout);
        double taken = milliseconds() - start;
        best = taken < best ? taken : best;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            float sum = b[j];
            for (int k = 0; k < N; k++)
                sum += x[i][k] * w[k][j];
            if (!(fabsf(out[i][j] - (sum > 0 ? sum : 0)) < 0.5f))
                return 1; /* a wrong result is a failure */
        }
    printf("time: %.4f\n", best);
    return 0;
}
