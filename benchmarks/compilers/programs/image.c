/* Stencils: image filters. Blur, Sobel, median, erosion, histogram equalisation, scaling, labels of components. */
#include "suite.h"

/* macro TILE_Y 4 8 16 32 64 128 */
#ifndef TILE_Y
#define TILE_Y 128
#endif
/* macro TILE_X 4 8 16 32 64 128 */
#ifndef TILE_X
#define TILE_X 128
#endif
/* macro UNROLL 1 2 3 4 6 8 */
#ifndef UNROLL
#define UNROLL 1
#endif
/* macro SEPARATE 0 1 */
#ifndef SEPARATE
#define SEPARATE 0
#endif
/* macro BRANCHES 0 1 */
#ifndef BRANCHES
#define BRANCHES 1
#endif
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

typedef unsigned char pixel;

static int clamp(int value, int low, int high) {
#if BRANCHES
    if (value < low)
        return low;
    if (value > high)
        return high;
    return value;
#else
    value = value < low ? low : value;
    return value > high ? high : value;
#endif
}

void blur(const pixel *restrict in, pixel *restrict out, int *restrict rows, int n) {
    static const int weights[5] = {1, 4, 6, 4, 1};
#if SEPARATE
    for (int y = 0; y < n; y++) {
        UNROLLED(UNROLL)
        for (int x = 2; x < n - 2; x++) {
            const pixel *at = &in[y * n + x];
            rows[y * n + x] = at[-2] + 4 * at[-1] + 6 * at[0] + 4 * at[1] + at[2];
        }
    }
    for (int y = 2; y < n - 2; y++) {
        UNROLLED(UNROLL)
        for (int x = 2; x < n - 2; x++) {
            const int *at = &rows[y * n + x];
            out[y * n + x] = (pixel)((at[-2 * n] + 4 * at[-n] + 6 * at[0] + 4 * at[n] + at[2 * n]) >> 8);
        }
    }
    (void)weights;
#else
    (void)rows;
    for (int yy = 2; yy < n - 2; yy += TILE_Y)
        for (int xx = 2; xx < n - 2; xx += TILE_X)
            for (int y = yy; y < yy + TILE_Y && y < n - 2; y++)
                for (int x = xx; x < xx + TILE_X && x < n - 2; x++) {
                    int sum = 0;
                    for (int dy = -2; dy <= 2; dy++) {
                        UNROLLED(UNROLL)
                        for (int dx = -2; dx <= 2; dx++)
                            sum += weights[dy + 2] * weights[dx + 2] * in[(y + dy) * n + x + dx];
                    }
                    out[y * n + x] = (pixel)(sum >> 8);
                }
#endif
}

void sobel(const pixel *restrict in, pixel *restrict out, int n) {
    for (int yy = 1; yy < n - 1; yy += TILE_Y)
        for (int xx = 1; xx < n - 1; xx += TILE_X)
            for (int y = yy; y < yy + TILE_Y && y < n - 1; y++) {
                int end = xx + TILE_X < n - 1 ? xx + TILE_X : n - 1;
                UNROLLED(UNROLL)
                for (int x = xx; x < end; x++) {
                    const pixel *a = &in[(y - 1) * n + x], *b = a + n, *c = b + n;
                    int gx = a[1] + 2 * b[1] + c[1] - a[-1] - 2 * b[-1] - c[-1];
                    int gy = c[-1] + 2 * c[0] + c[1] - a[-1] - 2 * a[0] - a[1];
                    out[y * n + x] = (pixel)clamp(abs(gx) + abs(gy), 0, 255);
                }
            }
}

static void order(pixel *a, pixel *b) {
    pixel low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

static pixel median_of_nine(pixel p[9]) {
    static const pixel pairs[19][2] = {{1, 2}, {4, 5}, {7, 8}, {0, 1}, {3, 4}, {6, 7}, {1, 2}, {4, 5}, {7, 8}, {0, 3},
                                       {5, 8}, {4, 7}, {3, 6}, {1, 4}, {2, 5}, {4, 7}, {4, 2}, {6, 4}, {4, 2}};
    for (int i = 0; i < 19; i++)
        order(&p[pairs[i][0]], &p[pairs[i][1]]);
    return p[4];
}

void median(const pixel *in, pixel *out, int n) {
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < n - 1; x++) {
            pixel around[9];
            for (int i = 0; i < 9; i++)
                around[i] = in[(y + i / 3 - 1) * n + x + i % 3 - 1];
            out[y * n + x] = median_of_nine(around);
        }
}

void equalise(pixel *image, int count) {
    int histogram[256] = {0}, seen = 0;
    pixel map[256];
    for (int i = 0; i < count; i++)
        histogram[image[i]]++;
    for (int v = 0; v < 256; v++) {
        seen += histogram[v];
        map[v] = (pixel)clamp((int)((int64_t)seen * 255 / count), 0, 255);
    }
    for (int i = 0; i < count; i++)
        image[i] = map[image[i]];
}

void scale(const pixel *in, pixel *out, int n, int m) {
    for (int y = 0; y < m; y++)
        for (int x = 0; x < m; x++) {
            int fy = y * (n - 1) * 256 / m, fx = x * (n - 1) * 256 / m;
            const pixel *at = &in[(fy >> 8) * n + (fx >> 8)];
            int wy = fy & 255, wx = fx & 255;
            int top = at[0] * (256 - wx) + at[1] * wx, bottom = at[n] * (256 - wx) + at[n + 1] * wx;
            out[y * m + x] = (pixel)((top * (256 - wy) + bottom * wy) >> 16);
        }
}

static int find_root(int *parent, int at) {
    while (parent[at] != at)
        at = parent[at] = parent[parent[at]];
    return at;
}

int count_components(const pixel *image, int *parent, int n, int threshold) {
    int components = 0;
    for (int i = 0; i < n * n; i++) {
        parent[i] = i;
        if (image[i] < threshold)
            continue;
        components++;
        int others[2] = {i % n ? i - 1 : -1, i >= n ? i - n : -1};
        for (int k = 0; k < 2; k++) {
            if (others[k] < 0 || image[others[k]] < threshold)
                continue;
            int a = find_root(parent, i), b = find_root(parent, others[k]);
            if (a != b) {
                parent[a] = b;
                components--;
            }
        }
    }
    return components;
}

static void mix_image(const pixel *image, int count) {
    for (int i = 0; i < count; i++)
        mix(image[i]);
}

void run(int size) {
    int n = size, count = n * n;
    pixel *a = calloc((size_t)count, 1), *b = calloc((size_t)count, 1);
    int *rows = calloc((size_t)count, sizeof(int));
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++)
            a[y * n + x] = (pixel)((x * y / 8 + (x ^ y) + (int)(next_random() % 40)) & 255);
    blur(a, b, rows, n);
    mix_image(b, count);
    sobel(b, a, n);
    mix_image(a, count);
    median(a, b, n);
    equalise(b, count);
    mix_image(b, count);
    for (int threshold = 60; threshold < 250; threshold += 60)
        mix((uint64_t)count_components(b, rows, n, threshold));
    scale(b, a, n, n * 2 / 3);
    mix_image(a, count);
    free(a);
    free(b);
    free(rows);
}
