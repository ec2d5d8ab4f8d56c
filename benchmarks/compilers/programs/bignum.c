/* Numbers: large integers. Products (schoolbook, Karatsuba), long division, roots, powers, decimal digits. */
#include "suite.h"

enum { WORDS = 160 };

typedef struct {
    int count;
    uint32_t words[WORDS];
} Big;

static void trim(Big *x) {
    while (x->count > 0 && x->words[x->count - 1] == 0)
        x->count--;
}

static void set(Big *x, uint32_t value) {
    x->words[0] = value;
    x->count = value != 0;
}

static int compare(const Big *a, const Big *b) {
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (int i = a->count - 1; i >= 0; i--)
        if (a->words[i] != b->words[i])
            return a->words[i] < b->words[i] ? -1 : 1;
    return 0;
}

void add(Big *a, const Big *b) {
    uint64_t carry = 0;
    for (int i = 0; i < WORDS && (i < b->count || carry || i < a->count); i++) {
        carry += (i < a->count ? a->words[i] : 0) + (uint64_t)(i < b->count ? b->words[i] : 0);
        a->words[i] = (uint32_t)carry;
        carry >>= 32;
        if (i >= a->count)
            a->count = i + 1;
    }
    trim(a);
}

void subtract(Big *a, const Big *b) {
    int64_t borrow = 0;
    for (int i = 0; i < a->count; i++) {
        borrow += (int64_t)a->words[i] - (i < b->count ? b->words[i] : 0);
        a->words[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    trim(a);
}

static void multiply_words(const uint32_t *a, const uint32_t *b, int n, uint32_t *out) {
    memset(out, 0, sizeof(uint32_t) * 2 * (size_t)n);
    for (int i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < n; j++) {
            carry += (uint64_t)a[i] * b[j] + out[i + j];
            out[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out[i + n] = (uint32_t)carry;
    }
}

static uint32_t add_words(uint32_t *to, const uint32_t *from, int n) {
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        carry += (uint64_t)to[i] + from[i];
        to[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return (uint32_t)carry;
}

static void subtract_words(uint32_t *to, const uint32_t *from, int n, int length) {
    int64_t borrow = 0;
    for (int i = 0; i < length; i++) {
        borrow += (int64_t)to[i] - (i < n ? from[i] : 0);
        to[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
}

/* Karatsuba for words of a power of two; `work` has 6 n words. */
static void karatsuba(const uint32_t *a, const uint32_t *b, int n, uint32_t *out, uint32_t *work) {
    if (n <= 16) {
        multiply_words(a, b, n, out);
        return;
    }
    int h = n / 2;
    uint32_t *sa = work, *sb = work + h, *middle = work + n, *rest = work + 2 * n + 2;
    karatsuba(a, b, h, out, rest);
    karatsuba(a + h, b + h, h, out + n, rest);
    memcpy(sa, a, sizeof(uint32_t) * (size_t)h);
    memcpy(sb, b, sizeof(uint32_t) * (size_t)h);
    uint32_t ca = add_words(sa, a + h, h), cb = add_words(sb, b + h, h);
    karatsuba(sa, sb, h, middle, rest);
    middle[n] = middle[n + 1] = 0;
    if (ca)
        middle[n] += add_words(middle + h, sb, h);
    if (cb)
        middle[n] += add_words(middle + h, sa, h);
    middle[n] += ca & cb;
    subtract_words(middle, out, n, n + 1);
    subtract_words(middle, out + n, n, n + 1);
    uint32_t carry = add_words(out + h, middle, n);
    uint64_t tail = (uint64_t)carry + middle[n];
    for (int i = n + h; i < 2 * n && tail; i++) {
        tail += out[i];
        out[i] = (uint32_t)tail;
        tail >>= 32;
    }
}

void multiply(Big *a, const Big *b) {
    uint32_t x[128] = {0}, y[128] = {0}, out[256], work[1024];
    int n = 4;
    while (n < a->count || n < b->count)
        n *= 2;
    if (n > 128 || a->count + b->count > WORDS)
        return;
    memcpy(x, a->words, sizeof(uint32_t) * (size_t)a->count);
    memcpy(y, b->words, sizeof(uint32_t) * (size_t)b->count);
    karatsuba(x, y, n, out, work);
    a->count = 2 * n < WORDS ? 2 * n : WORDS;
    memcpy(a->words, out, sizeof(uint32_t) * (size_t)a->count);
    trim(a);
}

static void multiply_small(Big *a, uint32_t factor) {
    uint64_t carry = 0;
    for (int i = 0; i < a->count; i++) {
        carry += (uint64_t)a->words[i] * factor;
        a->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && a->count < WORDS)
        a->words[a->count++] = (uint32_t)carry;
}

static uint32_t divide_small(Big *a, uint32_t by) {
    uint64_t rest = 0;
    for (int i = a->count - 1; i >= 0; i--) {
        rest = rest << 32 | a->words[i];
        a->words[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    trim(a);
    return (uint32_t)rest;
}

static int bit_length(const Big *a) {
    if (a->count == 0)
        return 0;
    return 32 * a->count - __builtin_clz(a->words[a->count - 1]);
}

static void shift_left(Big *a, int bits) {
    int words = bits / 32, rest = bits % 32, count = a->count + words + 1 < WORDS ? a->count + words + 1 : WORDS;
    for (int i = count - 1; i >= 0; i--) {
        uint64_t high = i - words >= 0 && i - words < a->count ? a->words[i - words] : 0;
        uint64_t low = i - words - 1 >= 0 && i - words - 1 < a->count ? a->words[i - words - 1] : 0;
        a->words[i] = (uint32_t)((high << 32 | low) >> (32 - rest));
    }
    a->count = count;
    trim(a);
}

static void halve(Big *a) {
    for (int i = 0; i < a->count; i++)
        a->words[i] = a->words[i] >> 1 | (i + 1 < a->count ? a->words[i + 1] << 31 : 0);
    trim(a);
}

/* a becomes the remainder; bit by bit. */
void divide(Big *a, const Big *b, Big *quotient) {
    Big moved = *b;
    int shift = bit_length(a) - bit_length(b);
    set(quotient, 0);
    if (shift < 0)
        return;
    shift_left(&moved, shift);
    for (; shift >= 0; shift--) {
        shift_left(quotient, 1);
        if (compare(a, &moved) >= 0) {
            subtract(a, &moved);
            if (quotient->count == 0)
                set(quotient, 1);
            else
                quotient->words[0] |= 1;
        }
        halve(&moved);
    }
}

static void mix_big(const Big *x) {
    for (int i = 0; i < x->count; i++)
        mix(x->words[i]);
}

static void mix_decimal(Big x) {
    while (x.count > 0)
        mix(divide_small(&x, 1000000000));
}

void run(int size) {
    Big a, b, c, quotient;
    set(&a, 1);
    for (int i = 2; i <= size; i++) {
        multiply_small(&a, (uint32_t)i);
        if (a.count > 120)
            divide_small(&a, 1000003);
    }
    mix_decimal(a);
    set(&b, 0);
    set(&c, 1);
    for (int i = 0; i < 8 * size; i++) {
        Big next = b;
        add(&next, &c);
        b = c;
        c = next;
        if (c.count > 100)
            set(&c, 7);
    }
    mix_big(&c);
    for (int round = 0; round < 4; round++) {
        a.count = 30 + 10 * round;
        b.count = 20 + 5 * round;
        for (int i = 0; i < a.count; i++)
            a.words[i] = next_random();
        for (int i = 0; i < b.count; i++)
            b.words[i] = next_random();
        c = a;
        divide(&c, &b, &quotient);
        mix_big(&quotient);
        mix_big(&c);
        multiply(&quotient, &b);
        add(&quotient, &c);
        mix((uint64_t)(compare(&quotient, &a) == 0));
        multiply(&a, &b);
        mix_big(&a);
    }
}
