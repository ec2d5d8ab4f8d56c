/* Sparse algebra: rows in compressed form, conjugate gradients, Gauss-Seidel, PageRank. */
#include "suite.h"

typedef struct {
    int rows, *starts, *columns;
    double *values;
} Sparse;

static Sparse allocate(int rows, int entries) {
    Sparse m = {rows, malloc(sizeof(int) * (size_t)(rows + 1)), malloc(sizeof(int) * (size_t)entries),
                malloc(sizeof(double) * (size_t)entries)};
    m.starts[0] = 0;
    return m;
}

static void release(Sparse *m) {
    free(m->starts);
    free(m->columns);
    free(m->values);
}

/* The Laplace matrix of a grid with side x side points. */
Sparse grid_laplace(int side) {
    Sparse m = allocate(side * side, 5 * side * side);
    int used = 0;
    for (int i = 0; i < side * side; i++) {
        int neighbours[4] = {i >= side ? i - side : -1, i % side ? i - 1 : -1, i % side < side - 1 ? i + 1 : -1,
                             i + side < side * side ? i + side : -1};
        for (int k = 0; k < 4; k++) {
            if (k == 2) {
                m.columns[used] = i;
                m.values[used++] = 4.1;
            }
            if (neighbours[k] >= 0) {
                m.columns[used] = neighbours[k];
                m.values[used++] = -1.0;
            }
        }
        m.starts[i + 1] = used;
    }
    return m;
}

void multiply(const Sparse *m, const double *x, double *y) {
    for (int i = 0; i < m->rows; i++) {
        double sum = 0;
        for (int at = m->starts[i]; at < m->starts[i + 1]; at++)
            sum += m->values[at] * x[m->columns[at]];
        y[i] = sum;
    }
}

static double dot(const double *x, const double *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add_scaled(double *x, double factor, const double *y, int n) {
    for (int i = 0; i < n; i++)
        x[i] += factor * y[i];
}

/* Solves m x = b by conjugate gradients; returns the number of steps. */
int conjugate_gradients(const Sparse *m, const double *b, double *x, double *work, int most) {
    int n = m->rows, step = 0;
    double *r = work, *p = work + n, *q = work + 2 * n;
    for (int i = 0; i < n; i++) {
        x[i] = 0;
        r[i] = p[i] = b[i];
    }
    double rho = dot(r, r, n);
    for (; step < most && rho > 1e-14; step++) {
        multiply(m, p, q);
        double alpha = rho / dot(p, q, n);
        add_scaled(x, alpha, p, n);
        add_scaled(r, -alpha, q, n);
        double next = dot(r, r, n), beta = next / rho;
        for (int i = 0; i < n; i++)
            p[i] = r[i] + beta * p[i];
        rho = next;
    }
    return step;
}

void sweep(const Sparse *m, const double *b, double *x) {
    for (int i = 0; i < m->rows; i++) {
        double sum = b[i], diagonal = 1;
        for (int at = m->starts[i]; at < m->starts[i + 1]; at++) {
            if (m->columns[at] == i)
                diagonal = m->values[at];
            else
                sum -= m->values[at] * x[m->columns[at]];
        }
        x[i] = sum / diagonal;
    }
}

Sparse random_graph(int nodes, int degree) {
    Sparse m = allocate(nodes, nodes * degree);
    for (int i = 0; i < nodes; i++) {
        m.starts[i + 1] = m.starts[i] + 1 + (int)(next_random() % (uint32_t)degree);
        for (int at = m.starts[i]; at < m.starts[i + 1]; at++) {
            uint32_t draw = next_random() % (uint32_t)nodes;
            m.columns[at] = (int)(next_random() % (draw + 1));
            m.values[at] = 1.0 / (m.starts[i + 1] - m.starts[i]);
        }
    }
    return m;
}

double page_rank(const Sparse *links, double *rank, double *next, int rounds) {
    int n = links->rows;
    double change = 0;
    for (int i = 0; i < n; i++)
        rank[i] = 1.0 / n;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < n; i++)
            next[i] = 0.15 / n;
        for (int i = 0; i < n; i++)
            for (int at = links->starts[i]; at < links->starts[i + 1]; at++)
                next[links->columns[at]] += 0.85 * rank[i] * links->values[at];
        change = 0;
        for (int i = 0; i < n; i++) {
            change += next[i] > rank[i] ? next[i] - rank[i] : rank[i] - next[i];
            rank[i] = next[i];
        }
    }
    return change;
}

void run(int size) {
    int n = size * size;
    double *x = malloc(sizeof(double) * (size_t)n), *b = malloc(sizeof(double) * (size_t)n);
    double *work = malloc(3 * sizeof(double) * (size_t)n);
    Sparse laplace = grid_laplace(size), graph = random_graph(n, 9);
    for (int i = 0; i < n; i++)
        b[i] = next_real();
    mix((uint64_t)conjugate_gradients(&laplace, b, x, work, 40));
    for (int i = 0; i < n; i += 3)
        mix((uint64_t)(int64_t)(x[i] * 1e4));
    for (int round = 0; round < 5; round++)
        sweep(&laplace, b, x);
    for (int i = 0; i < n; i += 3)
        mix((uint64_t)(int64_t)(x[i] * 1e4));
    mix_real(page_rank(&graph, x, b, 12));
    for (int i = 0; i < n; i += 3)
        mix_real(x[i] * 100);
    release(&laplace);
    release(&graph);
    free(x);
    free(b);
    free(work);
}
