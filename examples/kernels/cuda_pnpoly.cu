/* Which points are inside a polygon, by the number of its edges that a ray to the right crosses.
 *
 * SIZE: number of points; VERTICES: of the polygon, which is in constant memory with the inverse slopes of its edges.
 * Parameters:
 *   block_size_x, tile_size     threads of a block, and points of a thread, a block apart
 *   between_method              four ways to ask whether a point's height is between those of two vertices
 *   use_precomputed_slopes      read the inverse slope of an edge, or divide
 *   use_method                  three ways to count: toggle under one condition, toggle without a branch, count
 */
#if between_method == 0
#define BETWEEN(a, b, y) (((a) > (y)) != ((b) > (y)))
#elif between_method == 1
#define BETWEEN(a, b, y) (((a) - (y)) * ((b) - (y)) < 0.0f)
#elif between_method == 2
#define BETWEEN(a, b, y) (((a) <= (y) && (y) < (b)) || ((b) <= (y) && (y) < (a)))
#else
#define BETWEEN(a, b, y) (fminf(a, b) <= (y) && (y) < fmaxf(a, b))
#endif

__constant__ float2 vertices[VERTICES];
__constant__ float slopes[VERTICES]; /* of the edge that ends in the vertex: x over y */

extern "C" __global__ void pnpoly(const float2 *__restrict__ points, int *__restrict__ result)
{
    const int first = blockIdx.x * block_size_x * tile_size + threadIdx.x;
    float2 at[tile_size];
    int inside[tile_size];

#pragma unroll
    for (int t = 0; t < tile_size; t++) {
        at[t] = points[min(first + t * block_size_x, SIZE - 1)];
        inside[t] = 0;
    }
    for (int j = 0, k = VERTICES - 1; j < VERTICES; k = j++) {
        const float2 end = vertices[j], begin = vertices[k];
#if use_precomputed_slopes
        const float slope = slopes[j];
#else
        const float slope = (begin.x - end.x) / (begin.y - end.y);
#endif
#pragma unroll
        for (int t = 0; t < tile_size; t++) {
#if use_method == 0
            if (BETWEEN(end.y, begin.y, at[t].y) && at[t].x < slope * (at[t].y - end.y) + end.x)
                inside[t] = !inside[t];
#elif use_method == 1
            inside[t] ^= BETWEEN(end.y, begin.y, at[t].y) & (at[t].x < slope * (at[t].y - end.y) + end.x);
#else
            if (BETWEEN(end.y, begin.y, at[t].y))
                inside[t] += at[t].x < slope * (at[t].y - end.y) + end.x;
#endif
        }
    }
#pragma unroll
    for (int t = 0; t < tile_size; t++)
        if (first + t * block_size_x < SIZE) result[first + t * block_size_x] = inside[t] & 1;
}
