/* C = A B in single precision; every block computes MWG by NWG elements of C, KWG steps of the sum at a time.
 *
 * SIZE: rows of all three. A is stored by columns, B by rows, C by columns: a[k][m], b[k][n], c[n][m].
 * Parameters, with the names that CLBlast has made common:
 *   MWG NWG KWG   the tile of a block
 *   MDIMC NDIMC   its threads; each has MWG / MDIMC by NWG / NDIMC elements
 *   MDIMA NDIMB   how the same threads stand when they load a tile of A or of B
 *   KWI           steps of the sum that are unrolled
 *   VWM VWN       floats in a load
 *   STRM STRN     whether the elements of a thread are a block apart, else they are neighbours
 *   SA SB         whether tiles of A and B are held in shared memory
 */
#define MWI (MWG / MDIMC)
#define NWI (NWG / NDIMC)
#define THREADS (MDIMC * NDIMC)
#define KDIMA (THREADS / MDIMA)
#define KDIMB (THREADS / NDIMB)

template <int N> struct alignas(N * sizeof(float)) Floats {
    float each[N];
};
typedef Floats<VWM> FloatsM;
typedef Floats<VWN> FloatsN;

/* The place of a thread's q-th vector within the tile, in vectors. */
#define PLACE(strided, item, items, count, q) ((strided) ? (q) * (items) + (item) : (item) * (count) + (q))
#define PLACE_M(q) PLACE(STRM, threadIdx.x, MDIMC, MWI / VWM, q)
#define PLACE_N(q) PLACE(STRN, threadIdx.y, NDIMC, NWI / VWN, q)

extern "C" __global__ void gemm(const FloatsM *__restrict__ a, const FloatsN *__restrict__ b, FloatsM *__restrict__ c)
{
    const int m0 = blockIdx.x * (MWG / VWM), n0 = blockIdx.y * (NWG / VWN); /* in vectors */
    const int rows_a = SIZE / VWM, rows_b = SIZE / VWN;
    float sums[NWI][MWI] = {};
    FloatsM am[MWI / VWM];
    FloatsN bn[NWI / VWN];

#if SA
    __shared__ FloatsM held_a[KWG * MWG / VWM];
#endif
#if SB
    __shared__ FloatsN held_b[KWG * NWG / VWN];
#endif
#if SA || SB
    const int item = threadIdx.y * MDIMC + threadIdx.x;
#endif

    for (int k0 = 0; k0 < SIZE; k0 += KWG) {
#if SA
        for (int k = item / MDIMA; k < KWG; k += KDIMA)
#pragma unroll
            for (int q = 0; q < MWG / MDIMA / VWM; q++) {
                const int at = PLACE(STRM, item % MDIMA, MDIMA, MWG / MDIMA / VWM, q);
                held_a[k * (MWG / VWM) + at] = a[(k0 + k) * rows_a + m0 + at];
            }
#endif
#if SB
        for (int k = item / NDIMB; k < KWG; k += KDIMB)
#pragma unroll
            for (int q = 0; q < NWG / NDIMB / VWN; q++) {
                const int at = PLACE(STRN, item % NDIMB, NDIMB, NWG / NDIMB / VWN, q);
                held_b[k * (NWG / VWN) + at] = b[(k0 + k) * rows_b + n0 + at];
            }
#endif
#if SA || SB
        __syncthreads();
#endif
        for (int k1 = 0; k1 < KWG; k1 += KWI) {
#pragma unroll
            for (int k2 = 0; k2 < KWI; k2++) {
                const int k = k1 + k2;
#pragma unroll
                for (int q = 0; q < MWI / VWM; q++)
#if SA
                    am[q] = held_a[k * (MWG / VWM) + PLACE_M(q)];
#else
                    am[q] = a[(k0 + k) * rows_a + m0 + PLACE_M(q)];
#endif
#pragma unroll
                for (int q = 0; q < NWI / VWN; q++)
#if SB
                    bn[q] = held_b[k * (NWG / VWN) + PLACE_N(q)];
#else
                    bn[q] = b[(k0 + k) * rows_b + n0 + PLACE_N(q)];
#endif
#pragma unroll
                for (int n = 0; n < NWI; n++)
#pragma unroll
                    for (int m = 0; m < MWI; m++)
                        sums[n][m] += am[m / VWM].each[m % VWM] * bn[n / VWN].each[n % VWN];
            }
        }
#if SA || SB
        __syncthreads();
#endif
    }
#pragma unroll
    for (int n = 0; n < NWI; n++) {
        const int row = (n0 + PLACE_N(n / VWN)) * VWN + n % VWN;
#pragma unroll
        for (int q = 0; q < MWI / VWM; q++) {
            FloatsM written;
#pragma unroll
            for (int v = 0; v < VWM; v++) written.each[v] = sums[n][q * VWM + v];
            c[row * rows_a + m0 + PLACE_M(q)] = written;
        }
    }
}
