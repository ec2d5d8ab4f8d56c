/* The temperatures of a chip: STEPS steps of a five-point stencil, temporal_tiling_factor of them in one launch.
 *
 * SIZE: rows and columns of the grid; HORIZONTAL, VERTICAL, LEAK, HEAT: what a step takes over from the neighbours, the
 * surroundings (at 0) and the power. A block holds its tile with a margin as wide as the steps of the launch, which
 * shrinks by one a step. Launches take turns in writing to `result` and `scratch`, such that the last one writes the result.
 * Parameters:
 *   block_size_x, block_size_y     threads of a block
 *   tile_size_x, tile_size_y       cells of a thread
 *   temporal_tiling_factor         steps in a launch
 *   loop_unroll_factor_t           of these, how many are unrolled
 *   sh_power                       whether the power is in shared memory too
 *   blocks_per_sm                  how many blocks the compiler has to make room for on a multiprocessor; 0: as it likes
 */
#define MARGIN temporal_tiling_factor
#define COVERED_X (block_size_x * tile_size_x)
#define COVERED_Y (block_size_y * tile_size_y)
#define HELD_X (COVERED_X + 2 * MARGIN)
#define HELD_Y (COVERED_Y + 2 * MARGIN)

#if blocks_per_sm > 0
#define BOUNDS __launch_bounds__(block_size_x * block_size_y, blocks_per_sm)
#else
#define BOUNDS
#endif

constexpr int UNROLLED = loop_unroll_factor_t;

extern "C" __global__ void BOUNDS hotspot(const float *temperature, const float *power, float *result, float *scratch,
                                          int launch, int launches, int steps)
{
    __shared__ float held[2][HELD_Y][HELD_X];
#if sh_power
    __shared__ float held_power[HELD_Y][HELD_X];
#define POWER(x, y) held_power[y][x]
#else
#define POWER(x, y) power[(top + (y)) * SIZE + left + (x)]
#endif
    float *to = (launches - launch) % 2 ? result : scratch;
    const float *from = launch == 0 ? temperature : (launches - launch) % 2 ? scratch : result;
    const int left = (int)blockIdx.x * COVERED_X - MARGIN, top = (int)blockIdx.y * COVERED_Y - MARGIN;

    for (int y = threadIdx.y; y < HELD_Y; y += block_size_y)
        for (int x = threadIdx.x; x < HELD_X; x += block_size_x) {
            const int at = min(max(top + y, 0), SIZE - 1) * SIZE + min(max(left + x, 0), SIZE - 1);
            held[0][y][x] = from[at];
#if sh_power
            held_power[y][x] = power[at];
#endif
        }
    __syncthreads();

#pragma unroll UNROLLED
    for (int t = 1; t <= temporal_tiling_factor; t++) {
        if (t > steps) break;
        const float(*old)[HELD_X] = held[(t - 1) % 2];
        for (int y = threadIdx.y + t; y < HELD_Y - t; y += block_size_y)
            for (int x = threadIdx.x + t; x < HELD_X - t; x += block_size_x) {
                const int column = left + x, row = top + y;
                if (column < 0 || row < 0 || column >= SIZE || row >= SIZE) continue;
                const float own = old[y][x]; /* at the edge of the grid a cell is its own neighbour */
                const float across = old[y][x - (column > 0)] + old[y][x + (column < SIZE - 1)] - 2 * own;
                const float along = old[y - (row > 0)][x] + old[y + (row < SIZE - 1)][x] - 2 * own;
                held[t % 2][y][x] = own + HEAT * POWER(x, y) + HORIZONTAL * across + VERTICAL * along - LEAK * own;
            }
        __syncthreads();
    }

    for (int y = threadIdx.y + MARGIN; y < HELD_Y - MARGIN; y += block_size_y)
        for (int x = threadIdx.x + MARGIN; x < HELD_X - MARGIN; x += block_size_x)
            if (left + x < SIZE && top + y < SIZE) to[(top + y) * SIZE + left + x] = held[steps % 2][y][x];
}
