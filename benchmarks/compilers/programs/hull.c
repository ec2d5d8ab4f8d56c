/* Geometry: convex hull, closest pair, points in polygons, a k-d tree, clipping of lines, Bezier curves, segments. */
#include "suite.h"

typedef struct {
    int x, y;
} Point;

static int64_t cross(Point a, Point b, Point c) {
    return (int64_t)(b.x - a.x) * (c.y - a.y) - (int64_t)(b.y - a.y) * (c.x - a.x);
}

static int64_t squared(Point a, Point b) {
    int64_t dx = a.x - b.x, dy = a.y - b.y;
    return dx * dx + dy * dy;
}

static int by_x(const void *a, const void *b) {
    const Point *p = a, *q = b;
    return p->x != q->x ? (p->x < q->x ? -1 : 1) : p->y < q->y ? -1 : p->y > q->y;
}

static int by_y(const void *a, const void *b) {
    const Point *p = a, *q = b;
    return p->y != q->y ? (p->y < q->y ? -1 : 1) : p->x < q->x ? -1 : p->x > q->x;
}

/* Andrew's monotone chain over points sorted by x. */
int convex_hull(const Point *points, int count, Point *hull) {
    int used = 0;
    for (int i = 0; i < count; i++) {
        while (used >= 2 && cross(hull[used - 2], hull[used - 1], points[i]) <= 0)
            used--;
        hull[used++] = points[i];
    }
    for (int i = count - 2, lower = used + 1; i >= 0; i--) {
        while (used >= lower && cross(hull[used - 2], hull[used - 1], points[i]) <= 0)
            used--;
        hull[used++] = points[i];
    }
    return used - 1;
}

int64_t area_twice(const Point *polygon, int count) {
    int64_t area = 0;
    for (int i = 0; i < count; i++) {
        Point a = polygon[i], b = polygon[(i + 1) % count];
        area += (int64_t)a.x * b.y - (int64_t)a.y * b.x;
    }
    return area;
}

int64_t widest(const Point *hull, int count) {
    int64_t best = 0;
    for (int i = 0, j = 1; i < count; i++) {
        Point next = hull[(i + 1) % count];
        while (llabs(cross(hull[i], next, hull[(j + 1) % count])) > llabs(cross(hull[i], next, hull[j])))
            j = (j + 1) % count;
        int64_t distance = squared(hull[i], hull[j]);
        best = distance > best ? distance : best;
    }
    return best;
}

int64_t closest_pair(const Point *sorted, int count, Point *strip) {
    if (count <= 3) {
        int64_t best = INT64_MAX;
        for (int i = 0; i < count; i++)
            for (int j = i + 1; j < count; j++) {
                int64_t distance = squared(sorted[i], sorted[j]);
                best = distance < best ? distance : best;
            }
        return best;
    }
    int half = count / 2, used = 0;
    int64_t left = closest_pair(sorted, half, strip), right = closest_pair(sorted + half, count - half, strip);
    int64_t best = left < right ? left : right;
    for (int i = 0; i < count; i++) {
        int64_t dx = sorted[i].x - sorted[half].x;
        if (dx * dx < best)
            strip[used++] = sorted[i];
    }
    qsort(strip, (size_t)used, sizeof(Point), by_y);
    for (int i = 0; i < used; i++)
        for (int j = i + 1; j < used; j++) {
            int64_t dy = strip[j].y - strip[i].y;
            if (dy * dy >= best)
                break;
            int64_t distance = squared(strip[i], strip[j]);
            best = distance < best ? distance : best;
        }
    return best;
}

int is_inside(const Point *polygon, int count, Point p) {
    int inside = 0;
    for (int i = 0, j = count - 1; i < count; j = i++) {
        Point a = polygon[i], b = polygon[j];
        if ((a.y > p.y) != (b.y > p.y)) {
            int64_t left = (int64_t)(p.x - a.x) * (b.y - a.y), right = (int64_t)(b.x - a.x) * (p.y - a.y);
            if (b.y > a.y ? left < right : left > right)
                inside = !inside;
        }
    }
    return inside;
}

int do_cross(Point a, Point b, Point c, Point d) {
    int64_t s = cross(a, b, c), t = cross(a, b, d), u = cross(c, d, a), v = cross(c, d, b);
    return ((s > 0) != (t > 0)) && ((u > 0) != (v > 0));
}

/* The points become a k-d tree in place: the middle of each range splits it. */
void build_tree(Point *points, int low, int high, int axis) {
    if (high - low < 2)
        return;
    qsort(points + low, (size_t)(high - low), sizeof(Point), axis ? by_y : by_x);
    int middle = (low + high) / 2;
    build_tree(points, low, middle, !axis);
    build_tree(points, middle + 1, high, !axis);
}

static void search_tree(const Point *points, int low, int high, int axis, Point wanted, int64_t *best) {
    if (low >= high)
        return;
    int middle = (low + high) / 2;
    int64_t distance = squared(points[middle], wanted);
    if (distance < *best)
        *best = distance;
    int64_t gap = axis ? wanted.y - points[middle].y : wanted.x - points[middle].x;
    if (gap < 0)
        search_tree(points, low, middle, !axis, wanted, best);
    else
        search_tree(points, middle + 1, high, !axis, wanted, best);
    if (gap * gap < *best) {
        if (gap < 0)
            search_tree(points, middle + 1, high, !axis, wanted, best);
        else
            search_tree(points, low, middle, !axis, wanted, best);
    }
}

static int outcode(Point p, int size) {
    return (p.x < 0 ? 1 : p.x > size ? 2 : 0) | (p.y < 0 ? 4 : p.y > size ? 8 : 0);
}

/* Cohen and Sutherland; returns whether a part of the line is inside. */
int clip(Point *a, Point *b, int size) {
    for (;;) {
        int ca = outcode(*a, size), cb = outcode(*b, size);
        if (!(ca | cb))
            return 1;
        if (ca & cb)
            return 0;
        Point *out = ca ? a : b;
        int code = ca ? ca : cb;
        int64_t dx = b->x - a->x, dy = b->y - a->y, x0 = a->x, y0 = a->y;
        if (code & 12) {
            int y = code & 8 ? size : 0;
            *out = (Point){(int)(x0 + dx * (y - y0) / dy), y};
        } else {
            int x = code & 2 ? size : 0;
            *out = (Point){x, (int)(y0 + dy * (x - x0) / dx)};
        }
    }
}

static void draw_line(uint8_t *raster, int n, Point a, Point b) {
    int dx = abs(b.x - a.x), dy = -abs(b.y - a.y), sx = a.x < b.x ? 1 : -1, sy = a.y < b.y ? 1 : -1, error = dx + dy;
    for (;;) {
        raster[a.y * n + a.x]++;
        if (a.x == b.x && a.y == b.y)
            return;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            a.x += sx;
        }
        if (twice <= dx) {
            error += dx;
            a.y += sy;
        }
    }
}

static void bezier(uint8_t *raster, int n, const Point *p) {
    Point last = p[0];
    for (int t = 1; t <= 16; t++) {
        int s = 16 - t, w[4] = {s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t}, x = 0, y = 0;
        for (int k = 0; k < 4; k++) {
            x += w[k] * p[k].x;
            y += w[k] * p[k].y;
        }
        Point next = {x / 4096, y / 4096};
        draw_line(raster, n, last, next);
        last = next;
    }
}

static Point random_point(int range) {
    int x = draw(range);
    return (Point){x, draw(range)};
}

void run(int size) {
    Point *points = malloc(sizeof(Point) * (size_t)size), *hull = malloc(sizeof(Point) * (size_t)(2 * size + 2));
    uint8_t *raster = calloc(64 * 64, 1);
    for (int i = 0; i < size; i++)
        points[i] = random_point(20000);
    qsort(points, (size_t)size, sizeof(Point), by_x);
    int corners = convex_hull(points, size, hull), inside = 0, crossings = 0;
    mix((uint64_t)corners);
    mix((uint64_t)area_twice(hull, corners));
    mix((uint64_t)widest(hull, corners));
    for (int i = 0; i < size; i++)
        inside += is_inside(hull, corners, random_point(20000));
    mix((uint64_t)inside);
    mix((uint64_t)closest_pair(points, size, hull));
    for (int i = 0; i + 3 < size; i += 2)
        for (int j = i + 2; j + 1 < size && j < i + 40; j += 2)
            crossings += do_cross(points[i], points[i + 1], points[j], points[j + 1]);
    mix((uint64_t)crossings);
    build_tree(points, 0, size, 0);
    for (int i = 0; i < size; i++) {
        int64_t best = INT64_MAX;
        search_tree(points, 0, size, 0, random_point(20000), &best);
        mix((uint64_t)best);
    }
    for (int i = 0; i < size / 4; i++) {
        Point a = random_point(128), b = random_point(128), curve[4];
        a.x -= 32;
        b.y -= 32;
        if (clip(&a, &b, 63))
            draw_line(raster, 64, a, b);
        for (int k = 0; k < 4; k++)
            curve[k] = random_point(64);
        bezier(raster, 64, curve);
    }
    for (int i = 0; i < 64 * 64; i++)
        mix(raster[i]);
    free(points);
    free(hull);
    free(raster);
}
