/* Graphs: maximum flow (Dinic), matching, all shortest paths, strong components (Tarjan), Bellman-Ford, colouring. */
#include "suite.h"

enum { MOST = 4096 };

typedef struct {
    int count, head[512], next[MOST], to[MOST], room[MOST], level[512], at[512];
} Network;

static void network_init(Network *net) {
    net->count = 0;
    for (int v = 0; v < 512; v++)
        net->head[v] = -1;
}

static void connect(Network *net, int from, int to, int room) {
    int ends[2] = {from, to};
    for (int k = 0; k < 2 && net->count < MOST; k++) {
        int e = net->count++;
        net->to[e] = ends[1 - k];
        net->room[e] = k ? 0 : room;
        net->next[e] = net->head[ends[k]];
        net->head[ends[k]] = e;
    }
}

static int find_levels(Network *net, int source, int sink, int nodes) {
    int queue[512], first = 0, last = 0;
    for (int v = 0; v < nodes; v++)
        net->level[v] = -1;
    net->level[source] = 0;
    queue[last++] = source;
    while (first < last) {
        int v = queue[first++];
        for (int e = net->head[v]; e >= 0; e = net->next[e])
            if (net->room[e] > 0 && net->level[net->to[e]] < 0) {
                net->level[net->to[e]] = net->level[v] + 1;
                queue[last++] = net->to[e];
            }
    }
    return net->level[sink] >= 0;
}

static int push(Network *net, int v, int sink, int limit) {
    if (v == sink)
        return limit;
    for (int *e = &net->at[v]; *e >= 0; *e = net->next[*e]) {
        int to = net->to[*e];
        if (net->room[*e] <= 0 || net->level[to] != net->level[v] + 1)
            continue;
        int pushed = push(net, to, sink, limit < net->room[*e] ? limit : net->room[*e]);
        if (pushed > 0) {
            net->room[*e] -= pushed;
            net->room[*e ^ 1] += pushed;
            return pushed;
        }
    }
    return 0;
}

int maximum_flow(Network *net, int source, int sink, int nodes) {
    int flow = 0;
    while (find_levels(net, source, sink, nodes)) {
        memcpy(net->at, net->head, sizeof net->at);
        for (int pushed; (pushed = push(net, source, sink, 1 << 30)) > 0;)
            flow += pushed;
    }
    return flow;
}

void all_paths(int *distance, int n) {
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            int through = distance[i * n + k];
            if (through >= 1 << 20)
                continue;
            for (int j = 0; j < n; j++)
                if (through + distance[k * n + j] < distance[i * n + j])
                    distance[i * n + j] = through + distance[k * n + j];
        }
}

typedef struct {
    const int *distance;
    int n, clock, depth, components, number[128], low[128], stack[128];
    unsigned char on_stack[128];
} Tarjan;

static void visit(Tarjan *t, int v) {
    t->number[v] = t->low[v] = ++t->clock;
    t->stack[t->depth++] = v;
    t->on_stack[v] = 1;
    for (int w = 0; w < t->n; w++) {
        if (t->distance[v * t->n + w] >= 200)
            continue;
        if (t->number[w] == 0) {
            visit(t, w);
            if (t->low[w] < t->low[v])
                t->low[v] = t->low[w];
        } else if (t->on_stack[w] && t->number[w] < t->low[v]) {
            t->low[v] = t->number[w];
        }
    }
    if (t->low[v] == t->number[v]) {
        int w;
        t->components++;
        do {
            w = t->stack[--t->depth];
            t->on_stack[w] = 0;
            mix((uint64_t)(w * 1000 + t->components));
        } while (w != v);
    }
}

int strong_components(const int *distance, int n) {
    Tarjan t;
    memset(&t, 0, sizeof t);
    t.distance = distance;
    t.n = n;
    for (int v = 0; v < n; v++)
        if (t.number[v] == 0)
            visit(&t, v);
    return t.components;
}

/* Returns the number of rounds, or -1 for a negative cycle. */
int bellman_ford(int (*edges)[3], int count, int n, int *distance) {
    for (int v = 0; v < n; v++)
        distance[v] = v ? 1 << 20 : 0;
    for (int round = 0; round <= n; round++) {
        int changed = 0;
        for (int e = 0; e < count; e++) {
            int length = distance[edges[e][0]] + edges[e][2];
            if (distance[edges[e][0]] < 1 << 20 && length < distance[edges[e][1]]) {
                distance[edges[e][1]] = length;
                changed = 1;
            }
        }
        if (!changed)
            return round;
    }
    return -1;
}

int colour(const int *distance, int n, int *colours) {
    int used = 0;
    for (int v = 0; v < n; v++) {
        uint64_t taken = 0;
        for (int w = 0; w < v; w++)
            if (distance[v * n + w] < 150 || distance[w * n + v] < 150)
                taken |= 1ull << colours[w];
        int own = 0;
        while (taken >> own & 1)
            own++;
        colours[v] = own;
        used = own + 1 > used ? own + 1 : used;
    }
    return used;
}

void run(int size) {
    int n = size > 100 ? 100 : size, *distance = malloc(sizeof(int) * (size_t)(n * n)), colours[128];
    Network *net = malloc(sizeof(Network));
    static int edges[1000][3];
    for (int round = 0; round < 3; round++) {
        network_init(net);
        for (int e = 0; e < 10 * n; e++) {
            int from = draw(n), to = draw(n);
            connect(net, from, to, draw(50));
        }
        mix((uint64_t)maximum_flow(net, 0, n - 1, n));
        network_init(net);
        for (int v = 0; v < n; v++) {
            connect(net, 2 * n, v, 1);
            connect(net, n + v, 2 * n + 1, 1);
            for (int k = 0; k < 2; k++)
                connect(net, v, n + draw(n), 1);
        }
        mix((uint64_t)maximum_flow(net, 2 * n, 2 * n + 1, 2 * n + 2));
        for (int i = 0; i < n * n; i++)
            distance[i] = i % (n + 1) == 0 ? 0 : next_random() % 16 ? 1 << 20 : (int)(next_random() % 300);
        mix((uint64_t)strong_components(distance, n));
        mix((uint64_t)colour(distance, n, colours));
        all_paths(distance, n);
        for (int i = 0; i < n * n; i += 3)
            mix((uint64_t)distance[i]);
        for (int e = 0; e < 4 * n; e++) {
            edges[e][0] = (int)(next_random() % (uint32_t)n);
            edges[e][1] = (int)(next_random() % (uint32_t)n);
            edges[e][2] = (int)(next_random() % 90) - (edges[e][0] < edges[e][1] ? 20 : 0);
        }
        mix((uint64_t)bellman_ford(edges, 4 * n, n, distance));
        for (int v = 0; v < n; v++)
            mix((uint64_t)distance[v]);
    }
    free(net);
    free(distance);
}
