/* Compression: LZ77 with chains of hashes and lazy matches, Golomb codes of bits, and back again. */
#include "suite.h"

enum { WINDOW = 4096, HASHES = 1024, LEAST = 3, LONGEST = 66 };

typedef struct {
    uint8_t *bytes;
    int count;
    uint32_t bits;
    int filled;
} Bits;

static void put_bits(Bits *out, uint32_t value, int count) {
    out->bits |= value << out->filled;
    out->filled += count;
    while (out->filled >= 8) {
        out->bytes[out->count++] = (uint8_t)out->bits;
        out->bits >>= 8;
        out->filled -= 8;
    }
}

static void flush_bits(Bits *out) {
    if (out->filled > 0)
        out->bytes[out->count++] = (uint8_t)out->bits;
    out->bits = 0;
    out->filled = 0;
}

static uint32_t get_bits(Bits *in, int count) {
    while (in->filled < count) {
        in->bits |= (uint32_t)in->bytes[in->count++] << in->filled;
        in->filled += 8;
    }
    uint32_t value = in->bits & ((1u << count) - 1);
    in->bits >>= count;
    in->filled -= count;
    return value;
}

static void put_golomb(Bits *out, uint32_t value, int rest) {
    uint32_t quotient = value >> rest;
    for (; quotient > 0; quotient--)
        put_bits(out, 1, 1);
    put_bits(out, 0, 1);
    put_bits(out, value & ((1u << rest) - 1), rest);
}

static uint32_t get_golomb(Bits *in, int rest) {
    uint32_t quotient = 0;
    while (get_bits(in, 1))
        quotient++;
    return quotient << rest | get_bits(in, rest);
}

typedef struct {
    const uint8_t *data;
    int length, head[HASHES], *previous;
} Finder;

static uint32_t hash_of(const uint8_t *p) {
    uint32_t word = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return (word * 2654435761u) >> 22;
}

static void remember(Finder *finder, int at) {
    if (at + LEAST > finder->length)
        return;
    uint32_t hash = hash_of(finder->data + at);
    finder->previous[at % WINDOW] = finder->head[hash];
    finder->head[hash] = at;
}

static int match_length(const uint8_t *a, const uint8_t *b, int most) {
    int length = 0;
    while (length < most && a[length] == b[length])
        length++;
    return length;
}

static int find_match(const Finder *finder, int at, int *distance) {
    int most = finder->length - at < LONGEST ? finder->length - at : LONGEST, best = LEAST - 1;
    if (most < LEAST)
        return 0;
    int candidate = finder->head[hash_of(finder->data + at)];
    for (int tries = 24; tries > 0 && candidate >= 0 && at - candidate < WINDOW; tries--) {
        int length = match_length(finder->data + candidate, finder->data + at, most);
        if (length > best) {
            best = length;
            *distance = at - candidate;
            if (length == most)
                break;
        }
        int next = finder->previous[candidate % WINDOW];
        if (next >= candidate)
            break;
        candidate = next;
    }
    return best >= LEAST ? best : 0;
}

int compress(const uint8_t *data, int length, uint8_t *out, int *chain) {
    Finder finder = {.data = data, .length = length, .previous = chain};
    Bits bits = {.bytes = out};
    for (int i = 0; i < HASHES; i++)
        finder.head[i] = -1;
    for (int at = 0; at < length;) {
        int distance = 0, later = 0, found = find_match(&finder, at, &distance);
        remember(&finder, at);
        if (found > 0 && found < 16 && at + 1 < length) {
            int other = find_match(&finder, at + 1, &later);
            if (other > found + 1)
                found = 0; /* a literal now gives a longer match at the next place */
        }
        if (found == 0) {
            put_bits(&bits, 0, 1);
            put_bits(&bits, data[at++], 8);
            continue;
        }
        put_bits(&bits, 1, 1);
        put_golomb(&bits, (uint32_t)(found - LEAST), 3);
        put_golomb(&bits, (uint32_t)(distance - 1), 8);
        for (int i = 1; i < found; i++)
            remember(&finder, at + i);
        at += found;
    }
    flush_bits(&bits);
    return bits.count;
}

int expand(uint8_t *packed, uint8_t *out, int length) {
    Bits bits = {.bytes = packed};
    int at = 0;
    while (at < length) {
        if (!get_bits(&bits, 1)) {
            out[at++] = (uint8_t)get_bits(&bits, 8);
            continue;
        }
        int count = (int)get_golomb(&bits, 3) + LEAST, distance = (int)get_golomb(&bits, 8) + 1;
        if (distance > at || count > length - at)
            return -1;
        for (; count > 0; count--, at++)
            out[at] = out[at - distance];
    }
    return bits.count;
}

static void make_text(uint8_t *data, int length, int kind) {
    static const char *words[] = {"compiler", "loop", "vector", "register", "spill", "inline", "unroll", " the ", "of ", "a "};
    for (int at = 0; at < length;) {
        if (kind == 0) {
            for (const char *c = words[next_random() % 10]; *c && at < length; c++)
                data[at++] = (uint8_t)*c;
        } else if (kind == 1) {
            uint32_t run = 1 + next_random() % 20, byte = next_random() % 5;
            for (; run > 0 && at < length; run--)
                data[at++] = (uint8_t)byte;
        } else {
            data[at] = (uint8_t)(at > 64 && next_random() % 8 ? data[at - 1 - (int)(next_random() % 64)] : next_random());
            at++;
        }
    }
}

void run(int size) {
    uint8_t *data = malloc((size_t)size), *packed = calloc(4 * (size_t)size + 64, 1), *again = malloc((size_t)size);
    int *chain = malloc(sizeof(int) * WINDOW);
    for (int kind = 0; kind < 3; kind++) {
        make_text(data, size, kind);
        int count = compress(data, size, packed, chain);
        mix((uint64_t)count);
        for (int i = 0; i < count; i++)
            mix(packed[i]);
        mix((uint64_t)expand(packed, again, size));
        mix((uint64_t)memcmp(data, again, (size_t)size) == 0);
    }
    free(data);
    free(packed);
    free(again);
    free(chain);
}
