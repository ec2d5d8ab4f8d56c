/* Automata: Life by cells and by bits, one-dimensional rules, Langton's ant, forest fires, a Turing machine. */
#include "suite.h"

static int neighbours(const uint8_t *grid, int n, int x, int y) {
    int sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                sum += grid[(y + dy + n) % n * n + (x + dx + n) % n];
    return sum;
}

void life(const uint8_t *grid, uint8_t *next, int n) {
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            int around = neighbours(grid, n, x, y);
            next[y * n + x] = around == 3 || (around == 2 && grid[y * n + x]);
        }
}

static uint64_t rotate(uint64_t row, int by) { return by > 0 ? row << 1 | row >> 63 : by < 0 ? row >> 1 | row << 63 : row; }

/* 64 cells a word: adders of bits count the neighbours. */
void life_by_bits(const uint64_t *grid, uint64_t *next) {
    for (int y = 0; y < 64; y++) {
        uint64_t ones = 0, twos = 0, fours = 0;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                if (dx == 0 && dy == 0)
                    continue;
                uint64_t row = rotate(grid[(y + dy) & 63], dx), carry = ones & row, more = twos & carry;
                ones ^= row;
                twos ^= carry;
                fours |= more;
            }
        next[y] = twos & ~fours & (ones | grid[y]);
    }
}

void rule(const uint8_t *cells, uint8_t *next, int n, int number) {
    for (int i = 0; i < n; i++) {
        int left = cells[i ? i - 1 : n - 1], right = cells[i + 1 < n ? i + 1 : 0];
        next[i] = (uint8_t)(number >> (left << 2 | cells[i] << 1 | right) & 1);
    }
}

int ant(uint8_t *grid, int n, int steps, const char *turns) {
    static const int dx[4] = {0, 1, 0, -1}, dy[4] = {-1, 0, 1, 0};
    int x = n / 2, y = n / 2, direction = 0, colours = (int)strlen(turns);
    for (int step = 0; step < steps; step++) {
        uint8_t *cell = &grid[y * n + x];
        direction = (direction + (turns[*cell] == 'R' ? 1 : 3)) & 3;
        *cell = (uint8_t)(*cell + 1 == colours ? 0 : *cell + 1);
        x = (x + dx[direction] + n) % n;
        y = (y + dy[direction] + n) % n;
    }
    return y * n + x;
}

int burn(uint8_t *forest, uint8_t *next, int n) {
    enum { EMPTY, TREE, FIRE };
    int burning = 0;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            uint8_t cell = forest[y * n + x], then = cell;
            if (cell == FIRE) {
                then = EMPTY;
            } else if (cell == TREE) {
                int is_near = (x > 0 && forest[y * n + x - 1] == FIRE) || (x + 1 < n && forest[y * n + x + 1] == FIRE) ||
                              (y > 0 && forest[(y - 1) * n + x] == FIRE) || (y + 1 < n && forest[(y + 1) * n + x] == FIRE);
                if (is_near || next_random() % 500 == 0)
                    then = FIRE;
            } else if (next_random() % 20 == 0) {
                then = TREE;
            }
            burning += then == FIRE;
            next[y * n + x] = then;
        }
    memcpy(forest, next, (size_t)(n * n));
    return burning;
}

typedef struct {
    uint8_t write, move_right, next;
} Transition;

/* Runs a machine of two symbols until it halts (state 255) or the steps end; returns the steps. */
int turing(const Transition *table, uint8_t *tape, int length, int limit) {
    int at = length / 2, state = 0, step = 0;
    for (; step < limit && state != 255 && at > 0 && at < length - 1; step++) {
        const Transition *t = &table[state * 2 + tape[at]];
        tape[at] = t->write;
        at += t->move_right ? 1 : -1;
        state = t->next;
    }
    return step;
}

static int count_alive(const uint8_t *grid, int count) {
    int alive = 0;
    for (int i = 0; i < count; i++)
        alive += grid[i] != 0;
    return alive;
}

static void mix_cells(const uint8_t *cells, int count) {
    uint64_t word = 0;
    for (int i = 0; i < count; i++) {
        word = word << 2 | cells[i];
        if (i % 32 == 31)
            mix(word);
    }
    mix(word);
}

void run(int size) {
    static const Transition busy_beaver[8] = {{1, 1, 1}, {1, 0, 1}, {1, 0, 0}, {0, 0, 2}, {1, 1, 255}, {1, 0, 3}, {1, 1, 3}, {0, 1, 0}};
    int n = size, count = n * n;
    uint8_t *a = calloc((size_t)count, 1), *b = calloc((size_t)count, 1);
    uint64_t rows[64], next[64];
    for (int i = 0; i < count; i++)
        a[i] = next_random() % 3 == 0;
    for (int step = 0; step < 6; step++) {
        life(a, b, n);
        mix((uint64_t)count_alive(b, count));
        uint8_t *kept = a;
        a = b;
        b = kept;
    }
    mix_cells(a, count);
    for (int y = 0; y < 64; y++) {
        rows[y] = (uint64_t)next_random() << 32;
        rows[y] |= next_random();
    }
    for (int step = 0; step < 3 * size; step++) {
        life_by_bits(rows, next);
        memcpy(rows, next, sizeof rows);
    }
    for (int y = 0; y < 64; y++)
        mix(rows[y]);
    for (int number = 30; number < 256; number += 40) {
        memset(a, 0, (size_t)count);
        a[count / 2] = 1;
        for (int step = 0; step < 6; step++) {
            rule(a, b, count, number);
            rule(b, a, count, number);
        }
        mix_cells(a, count);
    }
    memset(a, 0, (size_t)count);
    mix((uint64_t)ant(a, n, 100 * size, "RL"));
    mix((uint64_t)ant(a, n, 10 * size, "RLLR"));
    mix_cells(a, count);
    for (int i = 0; i < count; i++)
        a[i] = next_random() % 2 ? 1 : 0;
    for (int step = 0; step < 8; step++)
        mix((uint64_t)burn(a, b, n));
    mix_cells(a, count);
    uint8_t tape[256] = {0};
    mix((uint64_t)turing(busy_beaver, tape, 256, 100 * size));
    mix_cells(tape, 256);
    free(a);
    free(b);
}
