/* Dynamic programming: edit distance, longest common subsequence, Smith-Waterman with gaps, time warping, Viterbi. */
#include "suite.h"

static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

int edit_distance(const char *a, int n, const char *b, int m, int *row) {
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = least(least(above, row[j - 1]) + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[m];
}

int common_subsequence(const char *a, int n, const char *b, int m, int *table, char *out) {
    int width = m + 1;
    memset(table, 0, sizeof(int) * (size_t)width);
    for (int i = 1; i <= n; i++) {
        table[i * width] = 0;
        for (int j = 1; j <= m; j++)
            table[i * width + j] = a[i - 1] == b[j - 1]
                                       ? table[(i - 1) * width + j - 1] + 1
                                       : most(table[(i - 1) * width + j], table[i * width + j - 1]);
    }
    int length = table[n * width + m], at = length;
    for (int i = n, j = m; i > 0 && j > 0;) {
        if (a[i - 1] == b[j - 1]) {
            out[--at] = a[i - 1];
            i--;
            j--;
        } else if (table[(i - 1) * width + j] >= table[i * width + j - 1]) {
            i--;
        } else {
            j--;
        }
    }
    return length;
}

static int score_of(char a, char b) {
    if (a == b)
        return 5;
    return (a ^ b) & 1 ? -4 : -2;
}

/* Best local alignment with gaps that cost `open` once and `extend` for each letter (Gotoh). */
int local_alignment(const char *a, int n, const char *b, int m, int open, int extend, int *work) {
    int *best = work, *gap = work + m + 1, found = 0;
    for (int j = 0; j <= m; j++) {
        best[j] = 0;
        gap[j] = -100000;
    }
    for (int i = 1; i <= n; i++) {
        int corner = 0, side = -100000;
        for (int j = 1; j <= m; j++) {
            gap[j] = most(gap[j] - extend, best[j] - open);
            side = most(side - extend, best[j - 1] - open);
            int here = most(most(corner + score_of(a[i - 1], b[j - 1]), 0), most(gap[j], side));
            corner = best[j];
            best[j] = here;
            found = most(found, here);
        }
    }
    return found;
}

int time_warp(const int *x, int n, const int *y, int m, int window, int *table) {
    int width = m + 1;
    for (int i = 0; i < (n + 1) * width; i++)
        table[i] = 1 << 28;
    table[0] = 0;
    for (int i = 1; i <= n; i++)
        for (int j = most(1, i - window); j <= least(m, i + window); j++) {
            int cost = abs(x[i - 1] - y[j - 1]);
            int before = least(table[(i - 1) * width + j], table[i * width + j - 1]);
            table[i * width + j] = cost + least(before, table[(i - 1) * width + j - 1]);
        }
    return table[n * width + m];
}

enum { STATES = 6, SYMBOLS = 4 };

/* The most likely states, in costs of integers; returns the cost. */
int viterbi(const char *seen, int n, int move[STATES][STATES], int show[STATES][SYMBOLS], unsigned char *back,
            char *path) {
    int cost[STATES], next[STATES], best = 0;
    for (int s = 0; s < STATES; s++)
        cost[s] = show[s][seen[0] - 'a'];
    for (int t = 1; t < n; t++) {
        for (int s = 0; s < STATES; s++) {
            int from = 0;
            for (int p = 1; p < STATES; p++)
                if (cost[p] + move[p][s] < cost[from] + move[from][s])
                    from = p;
            next[s] = cost[from] + move[from][s] + show[s][seen[t] - 'a'];
            back[t * STATES + s] = (unsigned char)from;
        }
        memcpy(cost, next, sizeof cost);
    }
    for (int s = 1; s < STATES; s++)
        if (cost[s] < cost[best])
            best = s;
    int total = cost[best];
    for (int t = n - 1; t >= 0; t--) {
        path[t] = (char)('A' + best);
        if (t > 0)
            best = back[t * STATES + best];
    }
    return total;
}

static void make_text(char *text, int n) {
    for (int i = 0; i < n; i++)
        text[i] = (char)('a' + (i > 8 && next_random() % 3 ? text[i - 1 - (int)(next_random() % 8)] - 'a' : (int)(next_random() % 4)));
}

void run(int size) {
    int n = size, m = size * 3 / 4;
    char *a = malloc((size_t)n), *b = malloc((size_t)n), *out = malloc((size_t)n);
    int *table = malloc(sizeof(int) * (size_t)(n + 1) * (size_t)(n + 1));
    int move[STATES][STATES], show[STATES][SYMBOLS];
    for (int round = 0; round < 3; round++) {
        make_text(a, n);
        make_text(b, m);
        mix((uint64_t)edit_distance(a, n, b, m, table));
        int length = common_subsequence(a, n, b, m, table, out);
        for (int i = 0; i < length; i++)
            mix((uint64_t)out[i]);
        mix((uint64_t)local_alignment(a, n, b, m, 8 + round, 2, table));
        int *x = malloc(sizeof(int) * (size_t)n), *y = malloc(sizeof(int) * (size_t)m);
        for (int i = 0; i < n; i++)
            x[i] = (int)(next_random() % 100) + i;
        for (int i = 0; i < m; i++)
            y[i] = (int)(next_random() % 100) + i * 4 / 3;
        mix((uint64_t)time_warp(x, n, y, m, n / 2, table));
        for (int s = 0; s < STATES; s++) {
            for (int p = 0; p < STATES; p++)
                move[s][p] = s == p ? 1 : 3 + (int)(next_random() % 9);
            for (int c = 0; c < SYMBOLS; c++)
                show[s][c] = 1 + (int)(next_random() % 7);
        }
        mix((uint64_t)viterbi(a, n, move, show, (unsigned char *)table, out));
        for (int i = 0; i < n; i++)
            mix((uint64_t)out[i]);
        free(x);
        free(y);
    }
    free(a);
    free(b);
    free(out);
    free(table);
}
