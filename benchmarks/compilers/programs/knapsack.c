/* Dynamic programming: knapsacks, matrix chains, increasing subsequences, search trees, partitions, tours, coins. */
#include "suite.h"

static int most(int a, int b) { return a > b ? a : b; }

int knapsack(const int *weights, const int *values, int count, int capacity, int *best) {
    memset(best, 0, sizeof(int) * (size_t)(capacity + 1));
    for (int i = 0; i < count; i++)
        for (int left = capacity; left >= weights[i]; left--)
            best[left] = most(best[left], best[left - weights[i]] + values[i]);
    return best[capacity];
}

int bounded_knapsack(const int *weights, const int *values, const int *limits, int count, int capacity, int *best) {
    memset(best, 0, sizeof(int) * (size_t)(capacity + 1));
    for (int i = 0; i < count; i++) {
        for (int left = limits[i], part = 1; left > 0; part *= 2) {
            int taken = part < left ? part : left, weight = taken * weights[i], value = taken * values[i];
            for (int room = capacity; room >= weight; room--)
                best[room] = most(best[room], best[room - weight] + value);
            left -= taken;
        }
    }
    return best[capacity];
}

static long chain_cost(const int *sizes, const long *table, int n, int i, int j, int k) {
    return table[i * n + k] + table[(k + 1) * n + j] + (long)sizes[i] * sizes[k + 1] * sizes[j + 1];
}

long matrix_chain(const int *sizes, int n, long *table, int *split) {
    for (int i = 0; i < n; i++)
        table[i * n + i] = 0;
    for (int length = 2; length <= n; length++)
        for (int i = 0; i + length <= n; i++) {
            int j = i + length - 1;
            table[i * n + j] = chain_cost(sizes, table, n, i, j, i);
            split[i * n + j] = i;
            for (int k = i + 1; k < j; k++) {
                long cost = chain_cost(sizes, table, n, i, j, k);
                if (cost < table[i * n + j]) {
                    table[i * n + j] = cost;
                    split[i * n + j] = k;
                }
            }
        }
    return table[n - 1];
}

static void mix_order(const int *split, int n, int i, int j) {
    if (i == j) {
        mix((uint64_t)i);
        return;
    }
    mix('(');
    mix_order(split, n, i, split[i * n + j]);
    mix_order(split, n, split[i * n + j] + 1, j);
    mix(')');
}

int increasing_subsequence(const int *values, int count, int *tails) {
    int length = 0;
    for (int i = 0; i < count; i++) {
        int low = 0, high = length;
        while (low < high) {
            int middle = (low + high) / 2;
            if (tails[middle] < values[i])
                low = middle + 1;
            else
                high = middle;
        }
        tails[low] = values[i];
        if (low == length)
            length++;
    }
    return length;
}

/* The best binary search tree for keys of known frequencies, with Knuth's bounds of the roots. */
long search_tree(const int *frequencies, int n, long *cost, int *root) {
    long *sums = malloc(sizeof(long) * (size_t)(n + 1));
    sums[0] = 0;
    for (int i = 0; i < n; i++) {
        sums[i + 1] = sums[i] + frequencies[i];
        cost[i * n + i] = frequencies[i];
        root[i * n + i] = i;
    }
    for (int length = 2; length <= n; length++)
        for (int i = 0; i + length <= n; i++) {
            int j = i + length - 1;
            long least = -1;
            for (int r = root[i * n + j - 1]; r <= root[(i + 1) * n + j]; r++) {
                long sides = (r > i ? cost[i * n + r - 1] : 0) + (r < j ? cost[(r + 1) * n + j] : 0);
                if (least < 0 || sides < least) {
                    least = sides;
                    root[i * n + j] = r;
                }
            }
            cost[i * n + j] = least + sums[j + 1] - sums[i];
        }
    free(sums);
    return cost[n - 1];
}

int can_halve(const int *values, int count) {
    static uint64_t bits[64];
    int total = 0, half;
    for (int i = 0; i < count; i++)
        total += values[i];
    half = total / 2;
    memset(bits, 0, sizeof bits);
    bits[0] = 1;
    for (int i = 0; i < count; i++)
        for (int word = 63; word >= 0; word--) {
            int whole = values[i] / 64, rest = values[i] % 64;
            if (word < whole)
                break;
            uint64_t moved = bits[word - whole] << rest;
            if (rest && word > whole)
                moved |= bits[word - whole - 1] >> (64 - rest);
            bits[word] |= moved;
        }
    while (half > 0 && !(half < 4096 && bits[half / 64] >> (half % 64) & 1))
        half--;
    return half;
}

/* The shortest tour by subsets (Held, Karp). */
int shortest_tour(int n, int distance[12][12], int *table) {
    int full = 1 << (n - 1), best = 1 << 28;
    for (int set = 1; set < full; set++)
        for (int last = 0; last < n - 1; last++) {
            int least = 1 << 28;
            if (!(set >> last & 1))
                continue;
            if (set == 1 << last)
                least = distance[n - 1][last];
            for (int from = 0; from < n - 1; from++)
                if (from != last && set >> from & 1) {
                    int length = table[(set ^ 1 << last) * n + from] + distance[from][last];
                    least = length < least ? length : least;
                }
            table[set * n + last] = least;
        }
    for (int last = 0; last < n - 1; last++) {
        int length = table[(full - 1) * n + last] + distance[last][n - 1];
        best = length < best ? length : best;
    }
    return best;
}

uint64_t ways_to_pay(int amount, uint64_t *ways) {
    static const int coins[] = {1, 2, 5, 10, 20, 50};
    memset(ways, 0, sizeof(uint64_t) * (size_t)(amount + 1));
    ways[0] = 1;
    for (unsigned c = 0; c < sizeof coins / sizeof coins[0]; c++)
        for (int sum = coins[c]; sum <= amount; sum++)
            ways[sum] += ways[sum - coins[c]];
    return ways[amount];
}

void run(int size) {
    int n = size, *a = malloc(sizeof(int) * (size_t)n), *b = malloc(sizeof(int) * (size_t)n);
    int *limits = malloc(sizeof(int) * (size_t)n), *split = malloc(sizeof(int) * (size_t)(n * n));
    long *table = malloc(sizeof(long) * (size_t)(n * n + 8192));
    int distance[12][12];
    for (int i = 0; i < n; i++) {
        a[i] = 1 + (int)(next_random() % 40);
        b[i] = 1 + (int)(next_random() % 90);
        limits[i] = 1 + (int)(next_random() % 9);
    }
    mix((uint64_t)knapsack(a, b, n, 10 * n, (int *)table));
    mix((uint64_t)bounded_knapsack(a, b, limits, n, 8 * n, (int *)table));
    mix((uint64_t)matrix_chain(a, n - 1, table, split));
    mix_order(split, n - 1, 0, n - 2);
    mix((uint64_t)increasing_subsequence(b, n, split));
    mix((uint64_t)search_tree(b, n, table, split));
    mix((uint64_t)can_halve(b, n));
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j++)
            distance[i][j] = 1 + (int)(next_random() % 99);
    mix((uint64_t)shortest_tour(8, distance, (int *)table));
    mix(ways_to_pay(20 * n, (uint64_t *)table));
    free(a);
    free(b);
    free(limits);
    free(split);
    free(table);
}
