/* Convolution of an image with a square filter; every work item computes TILE_SIZE_X by TILE_SIZE_Y pixels, a work group apart.
 *
 * SIZE: rows and columns of the result; FILTER: of the filter; the image has FILTER - 1 more of each.
 * Parameters: block_size_x, block_size_y, tile_size_x, tile_size_y, use_shmem, use_padding, use_cmem.
 */
#define IMAGE (SIZE + FILTER - 1)
#define COVERED_X (block_size_x * tile_size_x)
#define COVERED_Y (block_size_y * tile_size_y)
#define HELD_X (COVERED_X + FILTER - 1)
#define HELD_Y (COVERED_Y + FILTER - 1)
#define ROW (HELD_X + use_padding) /* one more float a row, so that a column is not in one bank */

#if use_cmem
#define FILTER_SPACE __constant
#else
#define FILTER_SPACE __global
#endif

__kernel __attribute__((reqd_work_group_size(block_size_x, block_size_y, 1))) void convolution(
    __global const float *restrict image, FILTER_SPACE const float *restrict weights, __global float *restrict result)
{
    const int left = get_group_id(0) * COVERED_X, top = get_group_id(1) * COVERED_Y;
    const int tx = get_local_id(0), ty = get_local_id(1);
    float sums[tile_size_y][tile_size_x];

#if use_shmem
    __local float held[HELD_Y * ROW];
    for (int y = ty; y < HELD_Y; y += block_size_y)
        for (int x = tx; x < HELD_X; x += block_size_x)
            held[y * ROW + x] = image[min(top + y, IMAGE - 1) * IMAGE + min(left + x, IMAGE - 1)];
    barrier(CLK_LOCAL_MEM_FENCE);
#define PIXEL(x, y) held[(y) * ROW + (x)]
#else
#define PIXEL(x, y) image[min(top + (y), IMAGE - 1) * IMAGE + min(left + (x), IMAGE - 1)]
#endif

    for (int j = 0; j < tile_size_y; j++)
        for (int i = 0; i < tile_size_x; i++) sums[j][i] = 0;
    for (int v = 0; v < FILTER; v++)
        for (int u = 0; u < FILTER; u++) {
            const float weight = weights[v * FILTER + u];
#pragma unroll
            for (int j = 0; j < tile_size_y; j++)
#pragma unroll
                for (int i = 0; i < tile_size_x; i++)
                    sums[j][i] += weight * PIXEL(tx + i * block_size_x + u, ty + j * block_size_y + v);
        }
    for (int j = 0; j < tile_size_y; j++)
        for (int i = 0; i < tile_size_x; i++) {
            const int x = left + tx + i * block_size_x, y = top + ty + j * block_size_y;
            if (x < SIZE && y < SIZE) result[y * SIZE + x] = sums[j][i];
        }
}
