/* Sparse algebra: triplets to rows, transpose, sum, product of sparse matrices, triangular solve, orders of rows. */
#include "suite.h"

typedef struct {
    int row, column, value;
} Triplet;

typedef struct {
    int rows, columns, *starts, *index, *values;
} Matrix;

static Matrix new_matrix(int rows, int columns, int entries) {
    Matrix m = {rows, columns, calloc((size_t)rows + 1, sizeof(int)), malloc(sizeof(int) * (size_t)(entries + 1)),
                malloc(sizeof(int) * (size_t)(entries + 1))};
    return m;
}

static void drop(Matrix *m) {
    free(m->starts);
    free(m->index);
    free(m->values);
}

static void sort_row(Matrix *m, int row) {
    for (int i = m->starts[row] + 1; i < m->starts[row + 1]; i++) {
        int index = m->index[i], value = m->values[i], at = i;
        for (; at > m->starts[row] && m->index[at - 1] > index; at--) {
            m->index[at] = m->index[at - 1];
            m->values[at] = m->values[at - 1];
        }
        m->index[at] = index;
        m->values[at] = value;
    }
}

Matrix from_triplets(const Triplet *triplets, int count, int rows, int columns) {
    Matrix m = new_matrix(rows, columns, count);
    int *next = calloc((size_t)rows + 1, sizeof(int));
    for (int i = 0; i < count; i++)
        m.starts[triplets[i].row + 1]++;
    for (int r = 0; r < rows; r++) {
        m.starts[r + 1] += m.starts[r];
        next[r] = m.starts[r];
    }
    for (int i = 0; i < count; i++) {
        int at = next[triplets[i].row]++;
        m.index[at] = triplets[i].column;
        m.values[at] = triplets[i].value;
    }
    for (int r = 0; r < rows; r++)
        sort_row(&m, r);
    free(next);
    return m;
}

Matrix transpose(const Matrix *m) {
    Matrix t = new_matrix(m->columns, m->rows, m->starts[m->rows]);
    for (int i = 0; i < m->starts[m->rows]; i++)
        t.starts[m->index[i] + 1]++;
    for (int c = 0; c < m->columns; c++)
        t.starts[c + 1] += t.starts[c];
    int *next = malloc(sizeof(int) * (size_t)m->columns);
    memcpy(next, t.starts, sizeof(int) * (size_t)m->columns);
    for (int r = 0; r < m->rows; r++)
        for (int i = m->starts[r]; i < m->starts[r + 1]; i++) {
            int at = next[m->index[i]]++;
            t.index[at] = r;
            t.values[at] = m->values[i];
        }
    free(next);
    return t;
}

/* Gustavson's algorithm: a dense row collects the products. */
Matrix product(const Matrix *a, const Matrix *b) {
    int capacity = 4 * (a->starts[a->rows] + b->starts[b->rows]), used = 0;
    Matrix c = new_matrix(a->rows, b->columns, capacity);
    int *sums = calloc((size_t)b->columns, sizeof(int)), *mark = malloc(sizeof(int) * (size_t)b->columns);
    for (int j = 0; j < b->columns; j++)
        mark[j] = -1;
    for (int r = 0; r < a->rows; r++) {
        int start = used;
        for (int i = a->starts[r]; i < a->starts[r + 1]; i++) {
            int middle = a->index[i], factor = a->values[i];
            for (int k = b->starts[middle]; k < b->starts[middle + 1]; k++) {
                int column = b->index[k];
                if (mark[column] != r) {
                    mark[column] = r;
                    sums[column] = 0;
                    if (used == capacity) {
                        capacity *= 2;
                        c.index = realloc(c.index, sizeof(int) * (size_t)(capacity + 1));
                        c.values = realloc(c.values, sizeof(int) * (size_t)(capacity + 1));
                    }
                    c.index[used++] = column;
                }
                sums[column] += factor * b->values[k];
            }
        }
        for (int i = start; i < used; i++)
            c.values[i] = sums[c.index[i]];
        c.starts[r + 1] = used;
        sort_row(&c, r);
    }
    free(sums);
    free(mark);
    return c;
}

Matrix sum(const Matrix *a, const Matrix *b, int alpha, int beta) {
    Matrix c = new_matrix(a->rows, a->columns, a->starts[a->rows] + b->starts[b->rows]);
    int used = 0;
    for (int r = 0; r < a->rows; r++) {
        int i = a->starts[r], j = b->starts[r];
        while (i < a->starts[r + 1] || j < b->starts[r + 1]) {
            int left = i < a->starts[r + 1] ? a->index[i] : INT32_MAX;
            int right = j < b->starts[r + 1] ? b->index[j] : INT32_MAX;
            int value = 0;
            c.index[used] = left < right ? left : right;
            if (left <= right)
                value += alpha * a->values[i++];
            if (right <= left)
                value += beta * b->values[j++];
            c.values[used++] = value;
        }
        c.starts[r + 1] = used;
    }
    return c;
}

void solve_lower(const Matrix *m, const double *b, double *x) {
    for (int r = 0; r < m->rows; r++) {
        double rest = b[r];
        for (int i = m->starts[r]; i < m->starts[r + 1] && m->index[i] < r; i++)
            rest -= 0.01 * m->values[i] * x[m->index[i]];
        x[r] = rest;
    }
}

/* Numbers the rows by breadth-first search from one of them (Cuthill, McKee); returns how many it reaches. */
int breadth_first_order(const Matrix *m, int *order, unsigned char *seen, int start) {
    int head = 0, tail = 0;
    memset(seen, 0, (size_t)m->rows);
    order[tail++] = start;
    seen[start] = 1;
    while (head < tail) {
        int row = order[head++];
        for (int i = m->starts[row]; i < m->starts[row + 1]; i++) {
            if (!seen[m->index[i]]) {
                seen[m->index[i]] = 1;
                order[tail++] = m->index[i];
            }
        }
    }
    return tail;
}

static void mix_matrix(const Matrix *m) {
    for (int r = 0; r < m->rows; r++)
        for (int i = m->starts[r]; i < m->starts[r + 1]; i++)
            mix((uint64_t)(m->index[i] * 7 + r) + (uint64_t)(uint32_t)m->values[i] * 1024u);
}

void run(int size) {
    int n = size, count = 4 * n;
    Triplet *triplets = malloc(sizeof(Triplet) * (size_t)count);
    for (int i = 0; i < count; i++) {
        int row = draw(n), column = draw(n);
        triplets[i] = (Triplet){row, column, draw(19) - 9};
    }
    Matrix a = from_triplets(triplets, count, n, n), b = transpose(&a), c = product(&a, &b), d = sum(&c, &a, 2, -3);
    mix_matrix(&a);
    mix_matrix(&c);
    mix_matrix(&d);
    double *x = malloc(sizeof(double) * (size_t)n), *y = malloc(sizeof(double) * (size_t)n);
    for (int i = 0; i < n; i++)
        y[i] = next_real();
    solve_lower(&a, y, x);
    for (int i = 0; i < n; i += 2)
        mix((uint64_t)(int64_t)(x[i] * 1e5));
    int *order = malloc(sizeof(int) * (size_t)n);
    unsigned char *seen = malloc((size_t)n);
    for (int start = 0; start < n; start += n / 5 + 1) {
        int reached = breadth_first_order(&d, order, seen, start);
        mix((uint64_t)reached);
        mix((uint64_t)order[reached - 1]);
    }
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&d);
    free(triplets);
    free(x);
    free(y);
    free(order);
    free(seen);
}
