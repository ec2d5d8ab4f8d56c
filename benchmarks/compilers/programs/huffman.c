/* Compression: Burrows-Wheeler transform, move to front, run lengths, canonical Huffman codes, arithmetic coding. */
#include "suite.h"

static const uint8_t *rotated;
static int rotated_length;

static int compare_rotations(int a, int b) {
    for (int i = 0; i < rotated_length; i++) {
        uint8_t x = rotated[a], y = rotated[b];
        if (x != y)
            return x < y ? -1 : 1;
        a = a + 1 == rotated_length ? 0 : a + 1;
        b = b + 1 == rotated_length ? 0 : b + 1;
    }
    return 0;
}

static void sort_rotations(int *order, int count) {
    static const int gaps[] = {301, 132, 57, 23, 10, 4, 1};
    for (unsigned g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (int i = gaps[g]; i < count; i++) {
            int own = order[i], at = i;
            for (; at >= gaps[g] && compare_rotations(order[at - gaps[g]], own) > 0; at -= gaps[g])
                order[at] = order[at - gaps[g]];
            order[at] = own;
        }
}

int burrows_wheeler(const uint8_t *in, uint8_t *out, int length, int *order) {
    int primary = 0;
    rotated = in;
    rotated_length = length;
    for (int i = 0; i < length; i++)
        order[i] = i;
    sort_rotations(order, length);
    for (int i = 0; i < length; i++) {
        out[i] = in[(order[i] + length - 1) % length];
        if (order[i] == 0)
            primary = i;
    }
    return primary;
}

void inverse_burrows_wheeler(const uint8_t *in, uint8_t *out, int length, int primary, int *next) {
    int starts[257] = {0};
    for (int i = 0; i < length; i++)
        starts[in[i] + 1]++;
    for (int c = 0; c < 256; c++)
        starts[c + 1] += starts[c];
    for (int i = 0; i < length; i++)
        next[starts[in[i]]++] = i;
    for (int i = 0, at = next[primary]; i < length; i++, at = next[at])
        out[i] = in[at];
}

void move_to_front(uint8_t *data, int length, int is_inverse) {
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
    for (int i = 0; i < length; i++) {
        int rank = data[i];
        if (!is_inverse) {
            rank = 0;
            while (table[rank] != data[i])
                rank++;
        }
        uint8_t value = table[rank];
        memmove(table + 1, table, (size_t)rank);
        table[0] = value;
        data[i] = is_inverse ? value : (uint8_t)rank;
    }
}

/* Lengths of the codes of 256 symbols by two queues in an array of nodes. */
static void code_lengths(const int *counts, uint8_t *lengths) {
    int weight[512], parent[512], used = 0, symbols[256];
    uint8_t depth[512] = {0};
    memset(lengths, 0, 256);
    for (int s = 0; s < 256; s++)
        if (counts[s])
            symbols[used++] = s;
    for (int i = 1; i < used; i++)
        for (int j = i; j > 0 && counts[symbols[j - 1]] > counts[symbols[j]]; j--) {
            int kept = symbols[j];
            symbols[j] = symbols[j - 1];
            symbols[j - 1] = kept;
        }
    for (int i = 0; i < used; i++)
        weight[i] = counts[symbols[i]];
    int leaf = 0, inner = used, end = used;
    while (end < 2 * used - 1) {
        int sum = 0;
        for (int k = 0; k < 2; k++) {
            int chosen = inner < end && (leaf >= used || weight[inner] < weight[leaf]) ? inner++ : leaf++;
            parent[chosen] = end;
            sum += weight[chosen];
        }
        weight[end++] = sum;
    }
    for (int i = end - 2; i >= 0; i--)
        depth[i] = (uint8_t)(depth[parent[i]] + 1);
    for (int i = 0; i < used; i++)
        lengths[symbols[i]] = used == 1 ? 1 : depth[i];
}

static void canonical_codes(const uint8_t *lengths, uint32_t *codes) {
    uint32_t code = 0;
    for (int length = 1; length < 32; length++, code <<= 1)
        for (int s = 0; s < 256; s++)
            if (lengths[s] == length)
                codes[s] = code++;
}

int huffman_encode(const uint8_t *data, int count, const uint8_t *lengths, const uint32_t *codes, uint8_t *out) {
    int bits = 0;
    for (int i = 0; i < count; i++)
        for (int bit = lengths[data[i]] - 1; bit >= 0; bit--, bits++) {
            if (bits % 8 == 0)
                out[bits / 8] = 0;
            out[bits / 8] |= (uint8_t)((codes[data[i]] >> bit & 1) << (7 - bits % 8));
        }
    return bits;
}

void huffman_decode(const uint8_t *in, int count, const uint8_t *lengths, uint8_t *out) {
    int firsts[32], offsets[32], numbers[32] = {0}, symbols[256], used = 0, bits = 0;
    for (int s = 0; s < 256; s++)
        numbers[lengths[s] & 31]++;
    numbers[0] = 0;
    for (int length = 1, code = 0; length < 32; length++, code <<= 1) {
        firsts[length] = code;
        offsets[length] = used;
        for (int s = 0; s < 256; s++)
            if (lengths[s] == length)
                symbols[used++] = s;
        code += numbers[length];
        code &= 0x0fffffff;
    }
    for (int i = 0; i < count; i++) {
        int code = 0;
        for (int length = 1; length < 32; length++) {
            code = code << 1 | (in[bits / 8] >> (7 - bits % 8) & 1);
            bits++;
            if (code - firsts[length] >= 0 && code - firsts[length] < numbers[length]) {
                out[i] = (uint8_t)symbols[offsets[length] + code - firsts[length]];
                break;
            }
        }
    }
}

/* Adaptive binary range coder (as in LZMA): returns the number of bytes. */
int range_encode(const uint8_t *data, int count, uint8_t *out) {
    uint16_t chances[256];
    uint64_t low = 0;
    uint32_t range = ~0u;
    int used = 0;
    for (int i = 0; i < 256; i++)
        chances[i] = 1024;
    for (int i = 0; i < count; i++)
        for (int bit = 7, context = 1; bit >= 0; bit--) {
            int value = data[i] >> bit & 1;
            uint32_t bound = (range >> 11) * chances[context];
            if (value) {
                low += bound;
                range -= bound;
                chances[context] = (uint16_t)(chances[context] - (chances[context] >> 5));
            } else {
                range = bound;
                chances[context] = (uint16_t)(chances[context] + ((2048 - chances[context]) >> 5));
            }
            context = context << 1 | value;
            while (range < 1u << 24) {
                if (low >> 32)
                    for (int k = used - 1; k >= 0 && ++out[k] == 0; k--)
                        ;
                out[used++] = (uint8_t)(low >> 24);
                low = (low & 0xffffff) << 8;
                range <<= 8;
            }
        }
    return used;
}

int run_lengths(const uint8_t *data, int count, uint8_t *out) {
    int used = 0;
    for (int i = 0; i < count;) {
        int run = 1;
        while (i + run < count && run < 130 && data[i + run] == data[i])
            run++;
        if (run >= 3) {
            out[used++] = 255;
            out[used++] = (uint8_t)run;
        } else {
            run = 1;
        }
        out[used++] = data[i];
        i += run;
    }
    return used;
}

void run(int size) {
    size_t n = (size_t)size;
    uint8_t *data = malloc(n), *moved = malloc(n), *packed = calloc(3 * n + 64, 1), *again = malloc(n), lengths[256];
    int *order = malloc(sizeof(int) * n), counts[256] = {0};
    uint32_t codes[256] = {0};
    for (int i = 0; i < size; i++)
        data[i] = (uint8_t)(i > 40 && next_random() % 5 ? data[i - 1 - (int)(next_random() % 7) * 5] : 'a' + next_random() % 12);
    int primary = burrows_wheeler(data, moved, size, order);
    mix((uint64_t)primary);
    move_to_front(moved, size, 0);
    for (int i = 0; i < size; i++)
        counts[moved[i]]++;
    code_lengths(counts, lengths);
    canonical_codes(lengths, codes);
    int bits = huffman_encode(moved, size, lengths, codes, packed);
    mix((uint64_t)bits);
    for (int i = 0; i < bits / 8; i++)
        mix(packed[i]);
    huffman_decode(packed, size, lengths, again);
    move_to_front(again, size, 1);
    inverse_burrows_wheeler(again, packed, size, primary, order);
    mix((uint64_t)memcmp(packed, data, n) == 0);
    int used = range_encode(moved, size, packed);
    for (int i = 0; i < used; i++)
        mix(packed[i]);
    mix((uint64_t)run_lengths(moved, size, packed));
    free(data);
    free(moved);
    free(packed);
    free(again);
    free(order);
}
