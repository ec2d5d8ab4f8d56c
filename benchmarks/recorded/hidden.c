/* A blocked matrix multiplication with four ways to fail, none of which can be told in advance; see hidden.toml.
 *
 * C = A B, square float32. A block of B is packed into a panel on the stack of a worker thread; the inner kernel takes
 * ROWS rows of A at once and VECTOR columns of the panel. Macros set from outside: ORDER (the loops over blocks,
 * outermost first, as in i,j,k), TILE_I, TILE_J, TILE_K, VECTOR, ROWS.
 *
 *     hidden time     prints {"times": [1.234, ...]}, milliseconds of three runs after a warm-up
 *     hidden check    exit code 1 if the result is wrong
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE 288
#define SPARE 64            /* rows after the last, so that an overrun is a wrong result and no chance crash */
#define STACK (64 << 10)    /* of the worker */
#define REPEATS 3

typedef float vector __attribute__((vector_size(4 * VECTOR)));
typedef float unaligned __attribute__((vector_size(4 * VECTOR), aligned(4)));

static float A[SIZE + SPARE][SIZE], B[SIZE][SIZE], C[SIZE + SPARE][SIZE];

static int least(int a, int b) { return a < b ? a : b; }

/* Add the product of a block of A and the panel; whole vectors first, the remaining columns one by one. */
static void multiply(float panel[TILE_K][TILE_J], int bi, int bj, int bk, int columns, int depth)
{
    int whole = columns / VECTOR * VECTOR;
    for (int i = bi; i < bi + TILE_I; i += ROWS) {
        for (int j = 0; j < whole; j += VECTOR) {
            vector sums[ROWS] = {0};
            for (int k = 0; k < depth; k++) {
                vector b = *(const vector *)&panel[k][j];
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++) sums[r] += A[i + r][bk + k] * b;
            }
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) *(unaligned *)&C[i + r][bj + j] += sums[r];
        }
        for (int j = whole; j < columns; j++)
            for (int r = 0; r < ROWS; r++) {
                float sum = 0;
                for (int k = 0; k < depth; k++) sum += A[i + r][bk + k] * panel[k][j];
                C[i + r][bj + j] += sum;
            }
    }
}

#define LOOP_i for (int bi = 0; bi < SIZE; bi += TILE_I)
#define LOOP_j for (int bj = 0; bj < SIZE; bj += TILE_J)
#define LOOP_k for (int bk = 0; bk < SIZE; bk += TILE_K)
#define NEST(a, b, c) LOOP_##a LOOP_##b LOOP_##c
#define NEST_OF(...) NEST(__VA_ARGS__)

static void product(void)
{
    float panel[TILE_K][TILE_J] __attribute__((aligned(64)));
    int packed_j = -1, packed_k = -1;
    memset(C, 0, sizeof C);
    NEST_OF(ORDER)
    {
        int columns = least(TILE_J, SIZE - bj), depth = least(TILE_K, SIZE - bk);
        if (bj != packed_j || bk != packed_k)
            for (int k = 0; k < depth; k++) memcpy(panel[k], &B[bk + k][bj], sizeof(float) * columns);
        packed_j = bj, packed_k = bk;
        multiply(panel, bi, bj, bk, columns, depth);
    }
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void *timed(void *unused)
{
    (void)unused;
    product(); /* warm-up */
    for (int r = 0; r < REPEATS; r++) {
        double start = milliseconds();
        product();
        printf("%s%.6f", r ? ", " : "{\"times\": [", milliseconds() - start);
    }
    puts("]}");
    return NULL;
}

static void *checked(void *wrong)
{
    product();
    for (int i = 0; i < SIZE; i += 7)
        for (int j = 0; j < SIZE; j++) {
            double sum = 0;
            for (int k = 0; k < SIZE; k++) sum += (double)A[i][k] * B[k][j];
            if (!(fabs(sum - C[i][j]) <= 1e-3) && !*(int *)wrong) {
                fprintf(stderr, "error: C[%d][%d] is %g, not %g\n", i, j, C[i][j], sum);
                *(int *)wrong = 1;
            }
        }
    return NULL;
}

int main(int argc, char **argv)
{
    int wrong = 0;
    pthread_t worker;
    pthread_attr_t small;
    srand(1);
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            A[i][j] = (float)rand() / (float)RAND_MAX - 0.5f;
            B[i][j] = (float)rand() / (float)RAND_MAX - 0.5f;
        }
    pthread_attr_init(&small);
    pthread_attr_setguardsize(&small, 4 << 20); /* an overflow cannot jump over it */
    pthread_attr_setstacksize(&small, STACK);
    if (pthread_create(&worker, &small, argc == 2 && !strcmp(argv[1], "check") ? checked : timed, &wrong)) return 2;
    pthread_join(worker, NULL);
    return wrong;
}
