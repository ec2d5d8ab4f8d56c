/* What every program shares: a checksum of its results, and random numbers that are the same everywhere. */
#ifndef SUITE_H
#define SUITE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t suite_checksum = 1469598103934665603u;
static uint32_t suite_state = 2463534242u;

static inline void mix(uint64_t value) {
    suite_checksum = (suite_checksum ^ value) * 1099511628211u;
    suite_checksum ^= suite_checksum >> 29;
}

/* Six decimals: compilers may order the operations of a sum differently. */
static inline void mix_real(double value) { mix((uint64_t)(int64_t)(value * 1e6 + (value < 0 ? -0.5 : 0.5))); }

static inline uint32_t next_random(void) {
    suite_state ^= suite_state << 13;
    suite_state ^= suite_state >> 17;
    suite_state ^= suite_state << 5;
    return suite_state;
}

/* Below `range`. Draw once in an expression: C does not order the arguments of a call. */
static inline int draw(int range) { return (int)(next_random() % (uint32_t)range); }

static inline double next_real(void) { return (next_random() >> 8) * (1.0 / 16777216.0); }

/* A program defines this; `size` is its argument. */
void run(int size);

int main(int argc, char **argv) {
    run(argc > 1 ? atoi(argv[1]) : 0);
    printf("%016llx\n", (unsigned long long)suite_checksum);
    return 0;
}

#endif
