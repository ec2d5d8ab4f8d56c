/* Hashing: FNV, Murmur, CRC, Adler; a table with open addresses, a bloom filter, cuckoo hashing, a ring. */
#include "suite.h"

uint32_t fnv(const uint8_t *data, int length) {
    uint32_t hash = 2166136261u;
    for (int i = 0; i < length; i++)
        hash = (hash ^ data[i]) * 16777619u;
    return hash;
}

static uint32_t rotate(uint32_t x, int by) { return x << by | x >> (32 - by); }

static uint32_t finish(uint32_t hash) {
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

uint32_t murmur(const uint8_t *data, int length, uint32_t seed) {
    uint32_t hash = seed, block;
    int i = 0;
    for (; i + 4 <= length; i += 4) {
        memcpy(&block, data + i, 4);
        hash ^= rotate(block * 0xcc9e2d51u, 15) * 0x1b873593u;
        hash = rotate(hash, 13) * 5 + 0xe6546b64u;
    }
    block = 0;
    switch (length & 3) {
    case 3:
        block ^= (uint32_t)data[i + 2] << 16; /* fall through */
    case 2:
        block ^= (uint32_t)data[i + 1] << 8; /* fall through */
    case 1:
        block ^= data[i];
        hash ^= rotate(block * 0xcc9e2d51u, 15) * 0x1b873593u;
    }
    return finish(hash ^ (uint32_t)length);
}

static void make_crc_table(uint32_t table[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
}

uint32_t crc(const uint32_t table[256], const uint8_t *data, int length) {
    uint32_t value = ~0u;
    for (int i = 0; i < length; i++)
        value = table[(value ^ data[i]) & 255] ^ value >> 8;
    return ~value;
}

uint32_t adler(const uint8_t *data, int length) {
    uint32_t a = 1, b = 0;
    while (length > 0) {
        int part = length < 5552 ? length : 5552;
        length -= part;
        while (part-- > 0) {
            a += *data++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

typedef struct {
    uint32_t *keys, *values;
    uint8_t *distance; /* from the wanted place, plus 1; 0 is free */
    int size, count;
} Table;

static Table new_table(int size) {
    return (Table){calloc((size_t)size, 4), calloc((size_t)size, 4), calloc((size_t)size, 1), size, 0};
}

static void free_table(Table *t) {
    free(t->keys);
    free(t->values);
    free(t->distance);
}

/* Robin Hood hashing: who is further from its place stays. */
static int insert(Table *t, uint32_t key, uint32_t value) {
    uint32_t at = finish(key) & (uint32_t)(t->size - 1);
    uint8_t distance = 1;
    while (t->distance[at]) {
        if (t->keys[at] == key) {
            t->values[at] += value;
            return 1;
        }
        if (t->distance[at] < distance) {
            uint32_t k = t->keys[at], v = t->values[at];
            uint8_t d = t->distance[at];
            t->keys[at] = key;
            t->values[at] = value;
            t->distance[at] = distance;
            key = k;
            value = v;
            distance = d;
        }
        at = (at + 1) & (uint32_t)(t->size - 1);
        if (++distance == 255)
            return 0;
    }
    t->keys[at] = key;
    t->values[at] = value;
    t->distance[at] = distance;
    t->count++;
    return 1;
}

static void grow(Table *t) {
    Table larger = new_table(t->size * 2);
    for (int i = 0; i < t->size; i++)
        if (t->distance[i])
            insert(&larger, t->keys[i], t->values[i]);
    free_table(t);
    *t = larger;
}

void table_add(Table *t, uint32_t key, uint32_t value) {
    if (t->count * 8 > t->size * 7)
        grow(t);
    while (!insert(t, key, value))
        grow(t);
}

const uint32_t *table_get(const Table *t, uint32_t key) {
    uint32_t at = finish(key) & (uint32_t)(t->size - 1);
    for (uint8_t distance = 1; t->distance[at] >= distance; distance++) {
        if (t->keys[at] == key)
            return &t->values[at];
        at = (at + 1) & (uint32_t)(t->size - 1);
    }
    return NULL;
}

void table_remove(Table *t, uint32_t key) {
    const uint32_t *found = table_get(t, key);
    if (!found)
        return;
    uint32_t mask = (uint32_t)t->size - 1, at = (uint32_t)(found - t->values), next = (at + 1) & mask;
    for (; t->distance[next] > 1; at = next, next = (next + 1) & mask) {
        t->keys[at] = t->keys[next];
        t->values[at] = t->values[next];
        t->distance[at] = (uint8_t)(t->distance[next] - 1);
    }
    t->distance[at] = 0;
    t->count--;
}

static int bloom(uint64_t *bits, uint32_t key, int is_insert) {
    int has = 1;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t place = finish(key + k * 0x9e3779b9u) & 4095;
        if (is_insert)
            bits[place >> 6] |= 1ull << (place & 63);
        has &= (int)(bits[place >> 6] >> (place & 63) & 1);
    }
    return has;
}

static int cuckoo(uint32_t *nests, uint32_t mask, uint32_t key) {
    for (int moves = 0; moves < 50; moves++) {
        for (int side = 0; side < 2; side++) {
            uint32_t *nest = &nests[(uint32_t)side * (mask + 1) + (finish(key ^ (uint32_t)side * 0x5bd1e995u) & mask)];
            uint32_t kept = *nest;
            *nest = key;
            if (kept == 0 || kept == key)
                return moves;
            key = kept;
        }
    }
    return -1;
}

void run(int size) {
    uint8_t *data = malloc((size_t)size);
    uint32_t crcs[256], nests[2048] = {0};
    uint64_t bits[64] = {0};
    make_crc_table(crcs);
    for (int i = 0; i < size; i++)
        data[i] = (uint8_t)next_random();
    for (int length = 1; length < size; length = length * 3 / 2 + 1) {
        mix(fnv(data, length));
        mix(murmur(data, length, 7));
        mix(crc(crcs, data, length));
        mix(adler(data, length));
    }
    Table table = new_table(16);
    for (int i = 0; i < size; i++) {
        uint32_t key = 1 + next_random() % 3000;
        switch (next_random() % 4) {
        case 0:
            table_remove(&table, key);
            break;
        case 1: {
            const uint32_t *found = table_get(&table, key);
            mix(found ? *found : 0);
            break;
        }
        default:
            table_add(&table, key, (uint32_t)i);
        }
        mix((uint64_t)bloom(bits, key, i % 8 == 0));
        if (i < 700)
            mix((uint64_t)cuckoo(nests, 1023, key));
    }
    mix((uint64_t)table.count);
    for (int i = 0; i < table.size; i++)
        mix(table.distance[i] ? table.keys[i] * 3 + table.values[i] : 0);
    free_table(&table);
    free(data);
}
