/* C = A B in single precision; every work group computes MWG by NWG elements of C, KWG steps of the sum at a time.
 *
 * SIZE: rows of all three. A is stored by columns, B by rows, C by columns: a[k][m], b[k][n], c[n][m].
 * Parameters, with the names that CLBlast has made common:
 *   MWG NWG KWG   the tile of a work group
 *   MDIMC NDIMC   its work items; each has MWG / MDIMC by NWG / NDIMC elements
 *   MDIMA NDIMB   how the same work items stand when they load a tile of A or of B
 *   KWI           steps of the sum that are unrolled
 *   VWM VWN       floats in a load
 *   STRM STRN     whether the elements of a work item are a work group apart, else they are neighbours
 *   SA SB         whether tiles of A and B are held in local memory
 */
#define MWI (MWG / MDIMC)
#define NWI (NWG / NDIMC)
#define ITEMS (MDIMC * NDIMC)
#define KDIMA (ITEMS / MDIMA)
#define KDIMB (ITEMS / NDIMB)

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if VWM == 1
#define COPY_M(to, at, from, index) (to)[at] = (from)[index]
#else
#define COPY_M(to, at, from, index) PASTE(vstore, VWM)(PASTE(vload, VWM)(index, from), at, to)
#endif
#if VWN == 1
#define COPY_N(to, at, from, index) (to)[at] = (from)[index]
#else
#define COPY_N(to, at, from, index) PASTE(vstore, VWN)(PASTE(vload, VWN)(index, from), at, to)
#endif

/* The place of a work item's q-th vector within the tile, in vectors. */
#define PLACE(strided, item, items, each, q) ((strided) ? (q) * (items) + (item) : (item) * (each) + (q))
#define PLACE_M(q) PLACE(STRM, get_local_id(0), MDIMC, MWI / VWM, q)
#define PLACE_N(q) PLACE(STRN, get_local_id(1), NDIMC, NWI / VWN, q)

__kernel __attribute__((reqd_work_group_size(MDIMC, NDIMC, 1))) void gemm(
    __global const float *restrict a, __global const float *restrict b, __global float *restrict c)
{
    const int m0 = get_group_id(0) * MWG, n0 = get_group_id(1) * NWG;
    float sums[NWI][MWI], am[MWI], bn[NWI];
    for (int n = 0; n < NWI; n++)
        for (int m = 0; m < MWI; m++) sums[n][m] = 0;

#if SA
    __local float held_a[KWG * MWG];
#endif
#if SB
    __local float held_b[KWG * NWG];
#endif
    const int item = get_local_id(1) * MDIMC + get_local_id(0);

    for (int k0 = 0; k0 < SIZE; k0 += KWG) {
#if SA
        for (int k = item / MDIMA; k < KWG; k += KDIMA)
            for (int q = 0; q < MWG / MDIMA / VWM; q++) {
                const int at = PLACE(STRM, item % MDIMA, MDIMA, MWG / MDIMA / VWM, q);
                COPY_M(held_a + k * MWG, at, a + (k0 + k) * SIZE + m0, at);
            }
#endif
#if SB
        for (int k = item / NDIMB; k < KWG; k += KDIMB)
            for (int q = 0; q < NWG / NDIMB / VWN; q++) {
                const int at = PLACE(STRN, item % NDIMB, NDIMB, NWG / NDIMB / VWN, q);
                COPY_N(held_b + k * NWG, at, b + (k0 + k) * SIZE + n0, at);
            }
#endif
#if SA || SB
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        for (int k1 = 0; k1 < KWG; k1 += KWI) {
#pragma unroll
            for (int k2 = 0; k2 < KWI; k2++) {
                const int k = k1 + k2;
#pragma unroll
                for (int q = 0; q < MWI / VWM; q++)
#if SA
                    COPY_M(am, q, held_a + k * MWG, PLACE_M(q));
#else
                    COPY_M(am, q, a + (k0 + k) * SIZE + m0, PLACE_M(q));
#endif
#pragma unroll
                for (int q = 0; q < NWI / VWN; q++)
#if SB
                    COPY_N(bn, q, held_b + k * NWG, PLACE_N(q));
#else
                    COPY_N(bn, q, b + (k0 + k) * SIZE + n0, PLACE_N(q));
#endif
#pragma unroll
                for (int n = 0; n < NWI; n++)
#pragma unroll
                    for (int m = 0; m < MWI; m++) sums[n][m] += am[m] * bn[n];
            }
        }
#if SA || SB
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
    }
    for (int n = 0; n < NWI; n++) {
        const int row = n0 + PLACE_N(n / VWN) * VWN + n % VWN;
        for (int q = 0; q < MWI / VWM; q++) COPY_M(c + row * SIZE + m0, PLACE_M(q), sums[n], q);
    }
}
