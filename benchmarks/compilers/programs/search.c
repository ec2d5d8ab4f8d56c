/* Text: string search by Knuth-Morris-Pratt, Boyer-Moore-Horspool, Rabin-Karp, Aho-Corasick, bit-parallel matching. */
#include "suite.h"

enum { LETTERS = 4, NODES = 400 };

int naive_count(const char *text, int length, const char *word, int size) {
    int found = 0;
    for (int i = 0; i + size <= length; i++)
        if (memcmp(text + i, word, (size_t)size) == 0)
            found++;
    return found;
}

static void prefix_table(const char *word, int size, int *table) {
    table[0] = 0;
    for (int i = 1, matched = 0; i < size; i++) {
        while (matched > 0 && word[i] != word[matched])
            matched = table[matched - 1];
        if (word[i] == word[matched])
            matched++;
        table[i] = matched;
    }
}

int kmp_count(const char *text, int length, const char *word, int size) {
    int table[64], found = 0;
    prefix_table(word, size, table);
    for (int i = 0, matched = 0; i < length; i++) {
        while (matched > 0 && text[i] != word[matched])
            matched = table[matched - 1];
        if (text[i] == word[matched])
            matched++;
        if (matched == size) {
            found++;
            matched = table[matched - 1];
        }
    }
    return found;
}

int horspool_count(const char *text, int length, const char *word, int size) {
    int shift[256], found = 0;
    for (int c = 0; c < 256; c++)
        shift[c] = size;
    for (int i = 0; i < size - 1; i++)
        shift[(unsigned char)word[i]] = size - 1 - i;
    for (int at = 0; at + size <= length; at += shift[(unsigned char)text[at + size - 1]]) {
        int i = size - 1;
        while (i >= 0 && text[at + i] == word[i])
            i--;
        found += i < 0;
    }
    return found;
}

int rabin_karp_count(const char *text, int length, const char *word, int size) {
    const uint64_t base = 257, modulus = 1000000007;
    uint64_t wanted = 0, hash = 0, power = 1;
    int found = 0;
    for (int i = 0; i < size; i++) {
        wanted = (wanted * base + (unsigned char)word[i]) % modulus;
        hash = (hash * base + (unsigned char)text[i]) % modulus;
        if (i > 0)
            power = power * base % modulus;
    }
    for (int at = 0;; at++) {
        if (hash == wanted && memcmp(text + at, word, (size_t)size) == 0)
            found++;
        if (at + size >= length)
            return found;
        hash = (hash + modulus * base - (unsigned char)text[at] * power % modulus) % modulus;
        hash = (hash * base + (unsigned char)text[at + size]) % modulus;
    }
}

/* Counts the ends of matches with at most `errors` substitutions (Baeza-Yates and Gonnet, Wu and Manber). */
int approximate_count(const char *text, int length, const char *word, int size, int errors) {
    uint64_t mask[256], state[4] = {0};
    int found = 0;
    for (int c = 0; c < 256; c++)
        mask[c] = 0;
    for (int i = 0; i < size; i++)
        mask[(unsigned char)word[i]] |= 1ull << i;
    for (int i = 0; i < length; i++) {
        uint64_t before = 0;
        for (int e = 0; e <= errors; e++) {
            uint64_t old = state[e];
            state[e] = (((old << 1) | 1) & mask[(unsigned char)text[i]]) | (e > 0 ? (before << 1) | 1 : 0);
            before = old;
        }
        found += (int)(state[errors] >> (size - 1) & 1);
    }
    return found;
}

typedef struct {
    int next[NODES][LETTERS], fail[NODES], hits[NODES], count;
} Trie;

static void trie_add(Trie *trie, const char *word, int size) {
    int node = 0;
    for (int i = 0; i < size; i++) {
        int letter = word[i] - 'a';
        if (trie->next[node][letter] == 0) {
            if (trie->count >= NODES)
                return;
            trie->next[node][letter] = trie->count++;
        }
        node = trie->next[node][letter];
    }
    trie->hits[node]++;
}

static void trie_link(Trie *trie) {
    int queue[NODES], head = 0, tail = 0;
    for (int letter = 0; letter < LETTERS; letter++)
        if (trie->next[0][letter])
            queue[tail++] = trie->next[0][letter];
    while (head < tail) {
        int node = queue[head++];
        trie->hits[node] += trie->hits[trie->fail[node]];
        for (int letter = 0; letter < LETTERS; letter++) {
            int child = trie->next[node][letter], other = trie->next[trie->fail[node]][letter];
            if (child) {
                trie->fail[child] = other;
                queue[tail++] = child;
            } else {
                trie->next[node][letter] = other;
            }
        }
    }
}

static int trie_count(const Trie *trie, const char *text, int length) {
    int found = 0;
    for (int i = 0, node = 0; i < length; i++) {
        node = trie->next[node][text[i] - 'a'];
        found += trie->hits[node];
    }
    return found;
}

void run(int size) {
    char *text = malloc((size_t)size);
    Trie *trie = calloc(1, sizeof(Trie));
    trie->count = 1;
    for (int i = 0; i < size; i++)
        text[i] = (char)('a' + (i % 11 < 4 ? 0 : next_random() % LETTERS));
    for (int length = 2; length < 16; length++) {
        char word[16];
        int from = (int)(next_random() % (uint32_t)(size - 16));
        memcpy(word, text + from, (size_t)length);
        if (length % 3 == 0)
            word[length - 1] = (char)('a' + next_random() % LETTERS);
        int found = naive_count(text, size, word, length);
        mix((uint64_t)found);
        if (kmp_count(text, size, word, length) != found || horspool_count(text, size, word, length) != found)
            mix(0xbad);
        mix((uint64_t)rabin_karp_count(text, size, word, length));
        for (int errors = 0; errors < 3; errors++)
            mix((uint64_t)approximate_count(text, size, word, length, errors));
        trie_add(trie, word, length);
    }
    trie_link(trie);
    mix((uint64_t)trie->count);
    mix((uint64_t)trie_count(trie, text, size));
    free(trie);
    free(text);
}
