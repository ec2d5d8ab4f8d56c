/* Numbers: sieves, Miller-Rabin by Montgomery products, Pollard's rho, number-theoretic transform, inverses, sums. */
#include "suite.h"

int sieve(uint8_t *composite, int limit, int *primes) {
    int count = 0;
    memset(composite, 0, (size_t)limit);
    for (int n = 2; n < limit; n++) {
        if (composite[n])
            continue;
        primes[count++] = n;
        for (int64_t multiple = (int64_t)n * n; multiple < limit; multiple += n)
            composite[multiple] = 1;
    }
    return count;
}

void totients(int *phi, int limit) {
    for (int n = 0; n < limit; n++)
        phi[n] = n;
    for (int n = 2; n < limit; n++)
        if (phi[n] == n)
            for (int multiple = n; multiple < limit; multiple += n)
                phi[multiple] -= phi[multiple] / n;
}

typedef struct {
    uint64_t modulus, negative_inverse, one, square;
} Montgomery;

static uint64_t reduce(const Montgomery *m, unsigned __int128 value) {
    uint64_t factor = (uint64_t)value * m->negative_inverse;
    unsigned __int128 sum = (unsigned __int128)factor * m->modulus;
    uint64_t carry = ((uint64_t)value != 0);
    uint64_t high = (uint64_t)(value >> 64), more = (uint64_t)(sum >> 64);
    uint64_t result = high + more + carry;
    if (result < high || result >= m->modulus || (carry && result == high && more))
        result -= m->modulus;
    return result;
}

static uint64_t product(const Montgomery *m, uint64_t a, uint64_t b) { return reduce(m, (unsigned __int128)a * b); }

static Montgomery prepare(uint64_t modulus) {
    Montgomery m = {.modulus = modulus};
    uint64_t inverse = modulus;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - modulus * inverse;
    m.negative_inverse = 0 - inverse;
    m.one = (0 - modulus) % modulus;
    uint64_t square = m.one;
    for (int i = 0; i < 64; i++)
        square = square >= modulus - square ? square - (modulus - square) : square + square;
    m.square = square;
    return m;
}

static uint64_t power(const Montgomery *m, uint64_t base, uint64_t exponent) {
    uint64_t result = m->one;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result = product(m, result, base);
        base = product(m, base, base);
    }
    return result;
}

int is_prime(uint64_t n) {
    static const uint64_t bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    if (n < 2)
        return 0;
    for (int i = 0; i < 12; i++)
        if (n % bases[i] == 0)
            return n == bases[i];
    int twos = __builtin_ctzll(n - 1);
    Montgomery m = prepare(n);
    uint64_t minus_one = n - m.one;
    for (int i = 0; i < 12; i++) {
        uint64_t x = power(&m, product(&m, bases[i], m.square), (n - 1) >> twos);
        if (x == m.one || x == minus_one)
            continue;
        int k = 1;
        for (; k < twos; k++) {
            x = product(&m, x, x);
            if (x == minus_one)
                break;
        }
        if (k >= twos)
            return 0;
    }
    return 1;
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t find_factor(uint64_t n) {
    if (n % 2 == 0)
        return 2;
    for (uint64_t add = 1;; add++) {
        uint64_t slow = 2, fast = 2, divisor = 1;
        while (divisor == 1) {
            slow = (slow * slow + add) % n;
            fast = (fast * fast + add) % n;
            fast = (fast * fast + add) % n;
            divisor = gcd(slow > fast ? slow - fast : fast - slow, n);
        }
        if (divisor != n)
            return divisor;
    }
}

static void factorise(uint64_t n) {
    if (n < 2)
        return;
    if (is_prime(n)) {
        mix(n);
        return;
    }
    uint64_t factor = find_factor(n);
    factorise(factor);
    factorise(n / factor);
}

enum { P = 998244353 };

static uint32_t power_p(uint64_t base, uint32_t exponent) {
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base = base * base % P)
        if (exponent & 1)
            result = result * base % P;
    return (uint32_t)result;
}

void number_transform(uint32_t *x, int n, int is_inverse) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            uint32_t kept = x[i];
            x[i] = x[j];
            x[j] = kept;
        }
    }
    for (int length = 2; length <= n; length *= 2) {
        uint32_t step = power_p(3, (uint32_t)((P - 1) / length));
        if (is_inverse)
            step = power_p(step, P - 2);
        for (int start = 0; start < n; start += length) {
            uint64_t w = 1;
            for (int k = start; k < start + length / 2; k++, w = w * step % P) {
                uint32_t a = x[k], b = (uint32_t)(w * x[k + length / 2] % P);
                x[k] = a + b >= P ? a + b - P : a + b;
                x[k + length / 2] = a >= b ? a - b : a + P - b;
            }
        }
    }
    if (is_inverse) {
        uint64_t inverse = power_p((uint64_t)n, P - 2);
        for (int i = 0; i < n; i++)
            x[i] = (uint32_t)(x[i] * inverse % P);
    }
}

void run(int size) {
    uint8_t *composite = malloc((size_t)size);
    int *numbers = malloc(sizeof(int) * (size_t)size), count = sieve(composite, size, numbers);
    for (int i = 0; i < count; i += 3)
        mix((uint64_t)numbers[i]);
    totients(numbers, size);
    for (int n = 0; n < size; n += 5)
        mix((uint64_t)numbers[n]);
    for (int i = 0; i < 6; i++) {
        uint64_t n = (uint64_t)next_random() << 30;
        n |= next_random() | 1;
        for (int k = 0; k < 3; k++, n += 2)
            mix((uint64_t)is_prime(n));
        factorise(n & 0x3ffffff);
    }
    uint32_t a[256], b[256];
    for (int i = 0; i < 256; i++) {
        a[i] = i < 128 ? next_random() % P : 0;
        b[i] = i < 128 ? next_random() % 1000 : 0;
    }
    number_transform(a, 256, 0);
    number_transform(b, 256, 0);
    for (int i = 0; i < 256; i++)
        a[i] = (uint32_t)((uint64_t)a[i] * b[i] % P);
    number_transform(a, 256, 1);
    for (int i = 0; i < 256; i++)
        mix(a[i]);
    free(composite);
    free(numbers);
}
