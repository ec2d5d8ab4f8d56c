/* Graphs: Dijkstra with a heap, breadth-first search on a grid, minimum spanning tree, topological order, bipartition. */
#include "suite.h"

typedef struct {
    int to, weight, next;
} Edge;

typedef struct {
    int nodes, edges, *first;
    Edge *edge;
} Graph;

typedef struct {
    int *node, *key, *place, count;
} Heap;

static void add_edge(Graph *g, int from, int to, int weight) {
    g->edge[g->edges] = (Edge){to, weight, g->first[from]};
    g->first[from] = g->edges++;
}

static void place(Heap *heap, int at, int node) {
    heap->node[at] = node;
    heap->place[node] = at;
}

static void move_up(Heap *heap, int at) {
    int node = heap->node[at];
    while (at > 0 && heap->key[heap->node[(at - 1) / 2]] > heap->key[node]) {
        place(heap, at, heap->node[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(heap, at, node);
}

static void move_down(Heap *heap, int at) {
    int node = heap->node[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->key[heap->node[child + 1]] < heap->key[heap->node[child]])
            child++;
        if (heap->key[heap->node[child]] >= heap->key[node])
            break;
        place(heap, at, heap->node[child]);
        at = child;
    }
    place(heap, at, node);
}

static int pop(Heap *heap) {
    int top = heap->node[0], last = heap->node[--heap->count];
    heap->place[top] = -2;
    if (heap->count > 0) {
        place(heap, 0, last);
        move_down(heap, 0);
    }
    return top;
}

void shortest_paths(const Graph *g, int source, Heap *heap) {
    for (int v = 0; v < g->nodes; v++) {
        heap->key[v] = INT32_MAX;
        heap->place[v] = -1;
    }
    heap->count = 1;
    heap->key[source] = 0;
    place(heap, 0, source);
    while (heap->count > 0) {
        int v = pop(heap);
        for (int e = g->first[v]; e >= 0; e = g->edge[e].next) {
            int to = g->edge[e].to, length = heap->key[v] + g->edge[e].weight;
            if (heap->place[to] == -2 || length >= heap->key[to])
                continue;
            heap->key[to] = length;
            if (heap->place[to] == -1)
                place(heap, heap->count++, to);
            move_up(heap, heap->place[to]);
        }
    }
}

static int find(int *parent, int v) {
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

static int compare_edges(const void *a, const void *b) {
    const int *x = a, *y = b;
    return x[2] != y[2] ? x[2] - y[2] : x[0] != y[0] ? x[0] - y[0] : x[1] - y[1];
}

int spanning_tree(int (*edges)[3], int count, int *parent, int nodes) {
    int total = 0;
    for (int v = 0; v < nodes; v++)
        parent[v] = v;
    qsort(edges, (size_t)count, sizeof edges[0], compare_edges);
    for (int e = 0; e < count; e++) {
        int a = find(parent, edges[e][0]), b = find(parent, edges[e][1]);
        if (a != b) {
            parent[a] = b;
            total += edges[e][2];
        }
    }
    return total;
}

int grid_distance(const unsigned char *wall, int n, int *distance, int *queue) {
    static const int dx[4] = {1, 0, -1, 0}, dy[4] = {0, 1, 0, -1};
    int head = 0, tail = 0, furthest = 0;
    for (int i = 0; i < n * n; i++)
        distance[i] = -1;
    queue[tail++] = 0;
    distance[0] = 0;
    while (head < tail) {
        int at = queue[head++], x = at % n, y = at / n;
        furthest = distance[at];
        for (int k = 0; k < 4; k++) {
            int u = x + dx[k], v = y + dy[k];
            if (u < 0 || v < 0 || u >= n || v >= n || wall[v * n + u] || distance[v * n + u] >= 0)
                continue;
            distance[v * n + u] = distance[at] + 1;
            queue[tail++] = v * n + u;
        }
    }
    return furthest;
}

int topological_order(const Graph *g, int *degree, int *order) {
    int head = 0, tail = 0;
    memset(degree, 0, sizeof(int) * (size_t)g->nodes);
    for (int e = 0; e < g->edges; e++)
        degree[g->edge[e].to]++;
    for (int v = 0; v < g->nodes; v++)
        if (degree[v] == 0)
            order[tail++] = v;
    while (head < tail)
        for (int e = g->first[order[head++]]; e >= 0; e = g->edge[e].next)
            if (--degree[g->edge[e].to] == 0)
                order[tail++] = g->edge[e].to;
    return tail;
}

void run(int size) {
    int n = size, m = 5 * n, *ints = malloc(sizeof(int) * (size_t)(6 * n));
    Graph g = {n, 0, ints, malloc(sizeof(Edge) * (size_t)m)}, ordered = {n, 0, ints + n, malloc(sizeof(Edge) * (size_t)m)};
    int(*edges)[3] = malloc(sizeof(int[3]) * (size_t)m);
    for (int v = 0; v < n; v++)
        g.first[v] = ordered.first[v] = -1;
    for (int e = 0; e < m; e++) {
        int a = (int)(next_random() % (uint32_t)n), b = (int)(next_random() % (uint32_t)n);
        int weight = 1 + (int)(next_random() % 1000);
        add_edge(&g, a, b, weight);
        if (a != b)
            add_edge(&ordered, a < b ? a : b, a < b ? b : a, weight);
        edges[e][0] = a;
        edges[e][1] = b;
        edges[e][2] = weight;
    }
    Heap heap = {ints + 2 * n, ints + 3 * n, ints + 4 * n, 0};
    for (int source = 0; source < n; source += n / 4) {
        shortest_paths(&g, source, &heap);
        for (int v = 0; v < n; v++)
            mix((uint64_t)heap.key[v]);
    }
    mix((uint64_t)spanning_tree(edges, m, ints + 2 * n, n));
    mix((uint64_t)topological_order(&ordered, ints + 2 * n, ints + 3 * n));
    for (int v = 0; v < n; v++)
        mix((uint64_t)ints[3 * n + v]);
    int side = 40;
    unsigned char wall[1600];
    int *work = malloc(sizeof(int) * 3200);
    for (int i = 0; i < side * side; i++)
        wall[i] = i > 0 && next_random() % 10 < 3;
    mix((uint64_t)grid_distance(wall, side, work, work + 1600));
    free(work);
    free(edges);
    free(g.edge);
    free(ordered.edge);
    free(ints);
}
