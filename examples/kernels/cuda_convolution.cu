/* Convolution of an image with a square filter; every thread computes tile_size_x by tile_size_y pixels, a block apart.
 *
 * SIZE: rows and columns of the result; FILTER: of the filter; the image has FILTER - 1 more of each.
 * Parameters: block_size_x, block_size_y, tile_size_x, tile_size_y, use_padding, read_only.
 */
#define IMAGE (SIZE + FILTER - 1)
#define COVERED_X (block_size_x * tile_size_x)
#define COVERED_Y (block_size_y * tile_size_y)
#define HELD_X (COVERED_X + FILTER - 1)
#define HELD_Y (COVERED_Y + FILTER - 1)
#define ROW (HELD_X + use_padding) /* one more float a row, so that a column is not in one bank */

#if read_only
#define LOAD(index) __ldg(image + (index))
#else
#define LOAD(index) image[index]
#endif

__constant__ float weights[FILTER * FILTER];

extern "C" __global__ void convolution(const float *image, float *result)
{
    __shared__ float held[HELD_Y * ROW];
    const int left = blockIdx.x * COVERED_X, top = blockIdx.y * COVERED_Y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    float sums[tile_size_y][tile_size_x] = {};

    for (int y = ty; y < HELD_Y; y += block_size_y)
        for (int x = tx; x < HELD_X; x += block_size_x)
            held[y * ROW + x] = LOAD(min(top + y, IMAGE - 1) * IMAGE + min(left + x, IMAGE - 1));
    __syncthreads();

    for (int v = 0; v < FILTER; v++)
#pragma unroll
        for (int u = 0; u < FILTER; u++)
#pragma unroll
            for (int j = 0; j < tile_size_y; j++)
#pragma unroll
                for (int i = 0; i < tile_size_x; i++)
                    sums[j][i] += weights[v * FILTER + u] *
                                  held[(ty + j * block_size_y + v) * ROW + tx + i * block_size_x + u];

#pragma unroll
    for (int j = 0; j < tile_size_y; j++)
#pragma unroll
        for (int i = 0; i < tile_size_x; i++) {
            const int x = left + tx + i * block_size_x, y = top + ty + j * block_size_y;
            if (x < SIZE && y < SIZE) result[y * SIZE + x] = sums[j][i];
        }
}
