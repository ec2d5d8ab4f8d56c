/* Hashing: SHA-256, SipHash, a Merkle tree, ChaCha, Base64, HMAC. */
#include "suite.h"

typedef struct {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    int used;
} Sha;

static uint32_t constants[64];

static uint32_t right(uint32_t x, int by) { return x >> by | x << (32 - by); }
static uint32_t left(uint32_t x, int by) { return x << by | x >> (32 - by); }

/* The first 32 bits of the fractions of the cube roots of the first 64 primes, by integers. */
static void make_constants(void) {
    int found = 0;
    for (unsigned n = 2; found < 64; n++) {
        int is_prime = 1;
        for (unsigned d = 2; d * d <= n; d++)
            is_prime &= n % d != 0;
        if (!is_prime)
            continue;
        unsigned __int128 low = 0, high = (unsigned __int128)8 << 32;
        while (high - low > 1) {
            unsigned __int128 middle = (low + high) / 2;
            if (middle * middle * middle <= (unsigned __int128)n << 96)
                low = middle;
            else
                high = middle;
        }
        constants[found++] = (uint32_t)low;
    }
}

static uint32_t load_big(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

static void store_big(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void sha_block(Sha *sha, const uint8_t *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = load_big(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, sha->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = right(s[4], 6) ^ right(s[4], 11) ^ right(s[4], 25), choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + e + choice + constants[i] + w[i];
        uint32_t a = right(s[0], 2) ^ right(s[0], 13) ^ right(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + a + majority;
    }
    for (int i = 0; i < 8; i++)
        sha->state[i] += s[i];
}

void sha_begin(Sha *sha) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(sha, 0, sizeof *sha);
    memcpy(sha->state, start, sizeof start);
}

void sha_add(Sha *sha, const uint8_t *data, int length) {
    sha->length += (uint64_t)length * 8;
    while (length > 0) {
        int part = 64 - sha->used < length ? 64 - sha->used : length;
        memcpy(sha->block + sha->used, data, (size_t)part);
        sha->used += part;
        data += part;
        length -= part;
        if (sha->used == 64) {
            sha_block(sha, sha->block);
            sha->used = 0;
        }
    }
}

void sha_end(Sha *sha, uint8_t out[32]) {
    uint64_t length = sha->length;
    uint8_t tail[72] = {0x80}, bits[8];
    sha_add(sha, tail, 1 + (119 - sha->used) % 64);
    store_big(bits, (uint32_t)(length >> 32));
    store_big(bits + 4, (uint32_t)length);
    sha_add(sha, bits, 8);
    for (int i = 0; i < 8; i++)
        store_big(out + 4 * i, sha->state[i]);
}

static void digest(const uint8_t *data, int length, uint8_t out[32]) {
    Sha sha;
    sha_begin(&sha);
    sha_add(&sha, data, length);
    sha_end(&sha, out);
}

void hmac(const uint8_t *key, int key_length, const uint8_t *data, int length, uint8_t out[32]) {
    uint8_t inner[64], outer[64];
    for (int i = 0; i < 64; i++) {
        uint8_t own = i < key_length ? key[i] : 0;
        inner[i] = own ^ 0x36;
        outer[i] = own ^ 0x5c;
    }
    Sha sha;
    sha_begin(&sha);
    sha_add(&sha, inner, 64);
    sha_add(&sha, data, length);
    sha_end(&sha, out);
    sha_begin(&sha);
    sha_add(&sha, outer, 64);
    sha_add(&sha, out, 32);
    sha_end(&sha, out);
}

/* Hashes pairs of digests up to the root, in place. */
void merkle(uint8_t (*leaves)[32], int count) {
    for (; count > 1; count = (count + 1) / 2)
        for (int i = 0; i < count; i += 2) {
            uint8_t both[64];
            memcpy(both, leaves[i], 32);
            memcpy(both + 32, leaves[i + 1 < count ? i + 1 : i], 32);
            digest(both, 64, leaves[i / 2]);
        }
}

static void quarter(uint32_t *s, int a, int b, int c, int d) {
    s[a] += s[b];
    s[d] = left(s[d] ^ s[a], 16);
    s[c] += s[d];
    s[b] = left(s[b] ^ s[c], 12);
    s[a] += s[b];
    s[d] = left(s[d] ^ s[a], 8);
    s[c] += s[d];
    s[b] = left(s[b] ^ s[c], 7);
}

void chacha(const uint32_t key[12], uint8_t *data, int length) {
    uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, s[16];
    memcpy(start + 4, key, 48);
    for (int at = 0; at < length; at += 64, start[12]++) {
        memcpy(s, start, sizeof s);
        for (int round = 0; round < 10; round++) {
            for (int i = 0; i < 4; i++)
                quarter(s, i, 4 + i, 8 + i, 12 + i);
            for (int i = 0; i < 4; i++)
                quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
        for (int i = 0; i < 64 && at + i < length; i++)
            data[at + i] ^= (uint8_t)((s[i / 4] + start[i / 4]) >> (8 * (i % 4)));
    }
}

uint64_t siphash(const uint8_t *data, int length, uint64_t k0, uint64_t k1) {
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    for (int at = 0; at <= length + 4; at += 8) {
        uint64_t word = at + 8 > length ? (uint64_t)length << 56 : 0;
        for (int i = 0; i < 8 && at + i < length; i++)
            word |= (uint64_t)data[at + i] << (8 * i);
        v[3] ^= word;
        for (int round = 0; round < 2; round++) {
            v[0] += v[1];
            v[1] = (v[1] << 13 | v[1] >> 51) ^ v[0];
            v[2] += v[3];
            v[3] = (v[3] << 16 | v[3] >> 48) ^ v[2];
            v[2] += v[1];
            v[0] = (v[0] << 32 | v[0] >> 32) + v[3];
        }
        v[0] ^= word;
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

int base64(const uint8_t *data, int length, char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *begin = out;
    for (int i = 0; i < length; i += 3) {
        uint32_t group = (uint32_t)data[i] << 16;
        if (i + 1 < length)
            group |= (uint32_t)data[i + 1] << 8;
        if (i + 2 < length)
            group |= data[i + 2];
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = i + 1 < length ? digits[group >> 6 & 63] : '=';
        *out++ = i + 2 < length ? digits[group & 63] : '=';
    }
    return (int)(out - begin);
}

void run(int size) {
    uint8_t *data = malloc((size_t)size + 64), leaves[16][32];
    char *text = malloc((size_t)size * 2 + 8);
    uint32_t key[12];
    make_constants();
    for (int i = 0; i < size; i++)
        data[i] = (uint8_t)next_random();
    for (int i = 0; i < 12; i++)
        key[i] = next_random();
    for (int i = 0; i < 16; i++) {
        digest(data, size * (i + 1) / 16, leaves[i]);
        mix(siphash(data + i, size - i, key[0], key[1]));
    }
    merkle(leaves, 13);
    hmac(leaves[0], 32, data, size, leaves[1]);
    for (int i = 0; i < 64; i++)
        mix(leaves[i / 32][i % 32]);
    chacha(key, data, size);
    for (int i = 0; i < size; i++)
        mix(data[i]);
    int length = base64(data, size, text);
    for (int i = 0; i < length; i++)
        mix((uint8_t)text[i]);
    free(data);
    free(text);
}
