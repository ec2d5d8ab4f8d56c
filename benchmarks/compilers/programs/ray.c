/* Geometry: a ray caster with spheres, a plane, boxes, shadows, reflections; no library calls. */
#include "suite.h"

typedef struct {
    float x, y, z;
} Vector;

typedef struct {
    Vector origin, direction;
} Ray;

typedef struct {
    int kind; /* 0 sphere, 1 box, 2 plane */
    Vector centre, size, colour;
    float mirror;
} Shape;

typedef struct {
    float distance;
    Vector point, normal;
    const Shape *shape;
} Hit;

static const float FAR = 1e6f, NEAR = 1e-3f;

static Vector plus(Vector a, Vector b) { return (Vector){a.x + b.x, a.y + b.y, a.z + b.z}; }
static Vector minus(Vector a, Vector b) { return (Vector){a.x - b.x, a.y - b.y, a.z - b.z}; }
static Vector times(Vector a, float k) { return (Vector){a.x * k, a.y * k, a.z * k}; }
static Vector mix_colours(Vector a, Vector b) { return (Vector){a.x * b.x, a.y * b.y, a.z * b.z}; }
static float dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

static float root(float value) {
    if (value <= 0)
        return 0;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits >> 1) + 0x1fbd1df5u;
    float guess;
    memcpy(&guess, &bits, 4);
    for (int i = 0; i < 3; i++)
        guess = 0.5f * (guess + value / guess);
    return guess;
}

static Vector unit(Vector a) { return times(a, 1.0f / root(dot(a, a))); }

static int hit_sphere(const Ray *ray, const Shape *shape, Hit *hit) {
    Vector to = minus(shape->centre, ray->origin);
    float along = dot(to, ray->direction), radius = shape->size.x;
    float rest = radius * radius - (dot(to, to) - along * along);
    if (rest < 0)
        return 0;
    float half = root(rest), distance = along - half;
    if (distance < NEAR)
        distance = along + half;
    if (distance < NEAR || distance >= hit->distance)
        return 0;
    hit->distance = distance;
    hit->point = plus(ray->origin, times(ray->direction, distance));
    hit->normal = times(minus(hit->point, shape->centre), 1.0f / radius);
    return 1;
}

static float part(Vector v, int axis) { return axis == 0 ? v.x : axis == 1 ? v.y : v.z; }

static int hit_box(const Ray *ray, const Shape *shape, Hit *hit) {
    float enter = -FAR, leave = FAR, sign = 1;
    int side = 0;
    for (int axis = 0; axis < 3; axis++) {
        float origin = part(ray->origin, axis), direction = part(ray->direction, axis);
        float low = part(shape->centre, axis) - part(shape->size, axis);
        float high = part(shape->centre, axis) + part(shape->size, axis);
        if (direction < 1e-6f && direction > -1e-6f) {
            if (origin < low || origin > high)
                return 0;
            continue;
        }
        float first = (low - origin) / direction, second = (high - origin) / direction;
        float near = first < second ? first : second, far = first < second ? second : first;
        if (near > enter) {
            enter = near;
            side = axis;
            sign = direction < 0 ? 1.0f : -1.0f;
        }
        leave = far < leave ? far : leave;
    }
    if (enter > leave || enter < NEAR || enter >= hit->distance)
        return 0;
    hit->distance = enter;
    hit->point = plus(ray->origin, times(ray->direction, enter));
    hit->normal = (Vector){side == 0 ? sign : 0, side == 1 ? sign : 0, side == 2 ? sign : 0};
    return 1;
}

static int hit_plane(const Ray *ray, const Shape *shape, Hit *hit) {
    if (ray->direction.y > -1e-4f)
        return 0;
    float distance = (shape->centre.y - ray->origin.y) / ray->direction.y;
    if (distance < NEAR || distance >= hit->distance)
        return 0;
    hit->distance = distance;
    hit->point = plus(ray->origin, times(ray->direction, distance));
    hit->normal = (Vector){0, 1, 0};
    return 1;
}

int cast(const Ray *ray, const Shape *shapes, int count, Hit *hit) {
    hit->distance = FAR;
    hit->shape = NULL;
    for (int i = 0; i < count; i++) {
        int found = 0;
        switch (shapes[i].kind) {
        case 0:
            found = hit_sphere(ray, &shapes[i], hit);
            break;
        case 1:
            found = hit_box(ray, &shapes[i], hit);
            break;
        default:
            found = hit_plane(ray, &shapes[i], hit);
        }
        if (found)
            hit->shape = &shapes[i];
    }
    return hit->shape != NULL;
}

static Vector surface_colour(const Hit *hit) {
    if (hit->shape->kind != 2)
        return hit->shape->colour;
    int x = (int)(hit->point.x + 1000.0f), z = (int)(hit->point.z + 1000.0f);
    return (x + z) & 1 ? hit->shape->colour : (Vector){0.2f, 0.2f, 0.2f};
}

Vector trace(const Ray *ray, const Shape *shapes, int count, Vector light, int depth) {
    Hit hit, other;
    if (!cast(ray, shapes, count, &hit)) {
        float height = 0.5f * (ray->direction.y + 1.0f);
        return (Vector){1.0f - 0.5f * height, 1.0f - 0.3f * height, 1.0f};
    }
    Vector to_light = minus(light, hit.point);
    float distance = root(dot(to_light, to_light)), bright = 0.15f;
    Ray shadow = {plus(hit.point, times(hit.normal, 2e-3f)), times(to_light, 1.0f / distance)};
    if (!cast(&shadow, shapes, count, &other) || other.distance > distance) {
        float angle = dot(hit.normal, shadow.direction);
        if (angle > 0)
            bright += 0.85f * angle;
    }
    Vector colour = times(surface_colour(&hit), bright);
    if (hit.shape->mirror > 0 && depth < 3) {
        float across = 2.0f * dot(ray->direction, hit.normal);
        Ray next = {shadow.origin, minus(ray->direction, times(hit.normal, across))};
        Vector seen = mix_colours(trace(&next, shapes, count, light, depth + 1), (Vector){1.0f, 0.95f, 0.9f});
        colour = plus(times(colour, 1.0f - hit.shape->mirror), times(seen, hit.shape->mirror));
    }
    return colour;
}

static Vector random_vector(void) {
    float x = (float)next_real(), y = (float)next_real();
    return (Vector){x, y, (float)next_real()};
}

static int level(float value) { return value < 0 ? 0 : value > 1 ? 31 : (int)(value * 31.0f + 0.5f); }

void run(int size) {
    Shape shapes[12] = {{2, {0, -1, 0}, {0, 0, 0}, {0.9f, 0.9f, 0.8f}, 0.2f}};
    for (int i = 1; i < 12; i++) {
        shapes[i].kind = i % 3 == 0;
        shapes[i].centre = plus(mix_colours(random_vector(), (Vector){6, 2, 5}), (Vector){-3, -0.5f, 4});
        shapes[i].size = (Vector){0.3f + (float)next_real() * 0.6f, 0.5f, 0.4f};
        shapes[i].colour = random_vector();
        shapes[i].mirror = i % 2 ? 0.4f : 0;
    }
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++) {
            float u = (float)(2 * x - size) / (float)size, v = (float)(size - 2 * y) / (float)size;
            Ray ray = {{0, 0.5f, -2}, unit((Vector){u, v, 1.8f})};
            Vector colour = trace(&ray, shapes, 12, (Vector){4, 6, -2}, 0);
            mix((uint64_t)(level(colour.x) << 10 | level(colour.y) << 5 | level(colour.z)));
        }
}
