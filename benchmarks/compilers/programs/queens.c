/* Search: queens by bits, sudoku with candidates, subset sums, knight's tours, exact cover, permutations, sliding tiles. */
#include "suite.h"

static int queens(int n, unsigned columns, unsigned left, unsigned right) {
    unsigned full = (1u << n) - 1, free_places = full & ~(columns | left | right);
    int found = 0;
    if (columns == full)
        return 1;
    while (free_places) {
        unsigned place = free_places & (0 - free_places);
        free_places ^= place;
        found += queens(n, columns | place, (left | place) << 1, (right | place) >> 1);
    }
    return found;
}

typedef struct {
    uint16_t rows[9], columns[9], boxes[9];
    uint8_t cells[81];
    int tried;
} Sudoku;

static int box_of(int cell) { return cell / 27 * 3 + cell % 9 / 3; }

static void toggle(Sudoku *s, int cell, int digit) {
    uint16_t bit = (uint16_t)(1 << digit);
    s->rows[cell / 9] ^= bit;
    s->columns[cell % 9] ^= bit;
    s->boxes[box_of(cell)] ^= bit;
}

static unsigned candidates(const Sudoku *s, int cell) {
    return 0x3feu & ~(unsigned)(s->rows[cell / 9] | s->columns[cell % 9] | s->boxes[box_of(cell)]);
}

int solve(Sudoku *s) {
    int best = -1, least = 10;
    if (s->tried++ > 4000)
        return 0;
    for (int cell = 0; cell < 81; cell++) {
        if (s->cells[cell])
            continue;
        int count = __builtin_popcount(candidates(s, cell));
        if (count < least) {
            least = count;
            best = cell;
        }
    }
    if (best < 0)
        return 1;
    for (unsigned left = candidates(s, best); left; left &= left - 1) {
        int digit = __builtin_ctz(left);
        s->cells[best] = (uint8_t)digit;
        toggle(s, best, digit);
        if (solve(s))
            return 1;
        toggle(s, best, digit);
        s->cells[best] = 0;
    }
    return 0;
}

static void read_sudoku(Sudoku *s, const char *text) {
    memset(s, 0, sizeof *s);
    for (int cell = 0; cell < 81; cell++)
        if (text[cell] != '.') {
            s->cells[cell] = (uint8_t)(text[cell] - '0');
            toggle(s, cell, s->cells[cell]);
        }
}

int subset_sums(const int *values, int count, int at, int rest) {
    if (rest == 0)
        return 1;
    if (rest < 0 || at == count)
        return 0;
    return subset_sums(values, count, at + 1, rest) + subset_sums(values, count, at + 1, rest - values[at]);
}

static const int jumps[8][2] = {{1, 2}, {2, 1}, {2, -1}, {1, -2}, {-1, -2}, {-2, -1}, {-2, 1}, {-1, 2}};

static int exits(const uint8_t *board, int n, int x, int y) {
    int count = 0;
    for (int k = 0; k < 8; k++) {
        int u = x + jumps[k][0], v = y + jumps[k][1];
        count += u >= 0 && v >= 0 && u < n && v < n && !board[v * n + u];
    }
    return count;
}

/* Warnsdorff's rule without a way back; returns the number of visited squares. */
int knights_tour(uint8_t *board, int n, int x, int y) {
    int visited = 1;
    memset(board, 0, (size_t)(n * n));
    board[y * n + x] = 1;
    for (;;) {
        int best = -1, least = 9;
        for (int k = 0; k < 8; k++) {
            int u = x + jumps[k][0], v = y + jumps[k][1];
            if (u < 0 || v < 0 || u >= n || v >= n || board[v * n + u])
                continue;
            int count = exits(board, n, u, v);
            if (count < least) {
                least = count;
                best = k;
            }
        }
        if (best < 0)
            return visited;
        x += jumps[best][0];
        y += jumps[best][1];
        board[y * n + x] = (uint8_t)++visited;
    }
}

int exact_cover(const uint32_t *sets, int count, uint32_t left) {
    if (left == 0)
        return 1;
    uint32_t wanted = left & (0 - left);
    int found = 0;
    for (int i = 0; i < count; i++)
        if (sets[i] & wanted && (sets[i] & ~left) == 0)
            found += exact_cover(sets, count, left ^ sets[i]);
    return found;
}

static int next_permutation(uint8_t *order, int n) {
    int i = n - 2, j = n - 1;
    while (i >= 0 && order[i] >= order[i + 1])
        i--;
    if (i < 0)
        return 0;
    while (order[j] <= order[i])
        j--;
    uint8_t kept = order[i];
    order[i] = order[j];
    order[j] = kept;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        kept = order[a];
        order[a] = order[b];
        order[b] = kept;
    }
    return 1;
}

/* Iterative deepening with the Manhattan distance on three by three tiles. */
static int deepen(uint8_t *tiles, int hole, int from, int cost, int limit, int *visited) {
    int estimate = 0, least = 1000;
    for (int i = 0; i < 9; i++)
        if (tiles[i])
            estimate += abs(i / 3 - (tiles[i] - 1) / 3) + abs(i % 3 - (tiles[i] - 1) % 3);
    if (estimate == 0)
        return -1;
    if (cost + estimate > limit)
        return cost + estimate;
    ++*visited;
    for (int k = 0; k < 4; k++) {
        static const int dx[4] = {1, -1, 0, 0}, dy[4] = {0, 0, 1, -1};
        int x = hole % 3 + dx[k], y = hole / 3 + dy[k], to = y * 3 + x;
        if (x < 0 || y < 0 || x > 2 || y > 2 || to == from)
            continue;
        tiles[hole] = tiles[to];
        tiles[to] = 0;
        int found = deepen(tiles, to, hole, cost + 1, limit, visited);
        tiles[to] = tiles[hole];
        tiles[hole] = 0;
        if (found < 0)
            return -1;
        least = found < least ? found : least;
    }
    return least;
}

static int solve_tiles(uint8_t *tiles, int hole, int *visited) {
    int limit = 0;
    while (limit < 40) {
        int found = deepen(tiles, hole, -1, 0, limit, visited);
        if (found < 0)
            return limit;
        limit = found;
    }
    return -1;
}

void run(int size) {
    static const char *puzzles[] = {
        "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79",
        "..............3.85..1.2.......5.7.....4...1...9.......5......73..2.1........4...9",
        "1.......2.9.4...5...6...7...5.9.3.......7.......85..4.7.....6...3...9.8...2.....1"};
    Sudoku sudoku;
    for (int n = 4; n <= size; n++)
        mix((uint64_t)queens(n, 0, 0, 0));
    for (int p = 0; p < 3; p++) {
        read_sudoku(&sudoku, puzzles[p]);
        mix((uint64_t)solve(&sudoku));
        mix((uint64_t)sudoku.tried);
        for (int cell = 0; cell < 81; cell++)
            mix(sudoku.cells[cell]);
    }
    int values[16];
    for (int i = 0; i < 16; i++)
        values[i] = 1 + (int)(next_random() % 30);
    mix((uint64_t)subset_sums(values, size + 5, 0, 60));
    uint8_t board[64];
    for (int square = 0; square < 64; square += 9) {
        mix((uint64_t)knights_tour(board, 8, square % 8, square / 8));
        mix(board[63]);
    }
    uint32_t sets[60];
    for (int i = 0; i < 60; i++)
        sets[i] = (1u << next_random() % 14) | (1u << next_random() % 14) | (1u << next_random() % 14);
    mix((uint64_t)exact_cover(sets, 60, (1u << 14) - 1));
    uint8_t order[7] = {0, 1, 2, 3, 4, 5, 6};
    int fixed_points = 0;
    do
        for (int i = 0; i < 7; i++)
            fixed_points += order[i] == i;
    while (next_permutation(order, 7));
    mix((uint64_t)fixed_points);
    uint8_t tiles[9] = {1, 2, 3, 4, 5, 6, 7, 8, 0};
    int hole = 8, visited = 0;
    for (int moves = 0; moves < 40; moves++) {
        static const int steps[4] = {1, -1, 3, -3};
        int to = hole + steps[next_random() % 4];
        if (to < 0 || to > 8 || (to / 3 != hole / 3 && to % 3 != hole % 3))
            continue;
        tiles[hole] = tiles[to];
        tiles[to] = 0;
        hole = to;
    }
    mix((uint64_t)solve_tiles(tiles, hole, &visited));
    mix((uint64_t)visited);
}
