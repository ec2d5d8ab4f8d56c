/* Signals: fast Fourier transform, convolution by it, a Goertzel filter, windows, a power spectrum. No library calls. */
#include "suite.h"

typedef struct {
    double re, im;
} Complex;

static const double PI = 3.14159265358979323846;

/* Sine by its series after a reduction to half a period. */
static double sine(double x) {
    while (x > PI)
        x -= 2 * PI;
    while (x < -PI)
        x += 2 * PI;
    double term = x, sum = x;
    for (int k = 1; k < 14; k++) {
        term *= -x * x / ((2 * k) * (2 * k + 1));
        sum += term;
    }
    return sum;
}

static double cosine(double x) { return sine(x + PI / 2); }

static Complex multiply(Complex a, Complex b) {
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static void reverse_bits(Complex *x, int n) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            Complex kept = x[i];
            x[i] = x[j];
            x[j] = kept;
        }
    }
}

void make_roots(Complex *roots, int n) {
    for (int k = 0; k < n / 2; k++)
        roots[k] = (Complex){cosine(2 * PI * k / n), -sine(2 * PI * k / n)};
}

void fft(Complex *x, const Complex *roots, int n, int inverse) {
    reverse_bits(x, n);
    for (int length = 2; length <= n; length *= 2) {
        int half = length / 2, step = n / length;
        for (int start = 0; start < n; start += length) {
            for (int k = 0; k < half; k++) {
                Complex w = roots[k * step];
                if (inverse)
                    w.im = -w.im;
                Complex even = x[start + k], odd = multiply(w, x[start + k + half]);
                x[start + k] = (Complex){even.re + odd.re, even.im + odd.im};
                x[start + k + half] = (Complex){even.re - odd.re, even.im - odd.im};
            }
        }
    }
    if (inverse)
        for (int i = 0; i < n; i++) {
            x[i].re /= n;
            x[i].im /= n;
        }
}

void convolve(const double *a, const double *b, double *out, Complex *fa, Complex *fb, const Complex *roots, int n) {
    for (int i = 0; i < n; i++) {
        fa[i] = (Complex){a[i], 0};
        fb[i] = (Complex){b[i], 0};
    }
    fft(fa, roots, n, 0);
    fft(fb, roots, n, 0);
    for (int i = 0; i < n; i++)
        fa[i] = multiply(fa[i], fb[i]);
    fft(fa, roots, n, 1);
    for (int i = 0; i < n; i++)
        out[i] = fa[i].re;
}

double goertzel(const double *x, int n, int bin) {
    double factor = 2 * cosine(2 * PI * bin / n), before = 0, last = 0;
    for (int i = 0; i < n; i++) {
        double now = x[i] + factor * last - before;
        before = last;
        last = now;
    }
    return last * last + before * before - factor * last * before;
}

static void apply_window(double *x, int n, int kind) {
    for (int i = 0; i < n; i++) {
        double phase = 2 * PI * i / (n - 1);
        switch (kind) {
        case 0:
            x[i] *= 0.5 - 0.5 * cosine(phase);
            break;
        case 1:
            x[i] *= 0.54 - 0.46 * cosine(phase);
            break;
        default:
            x[i] *= 0.42 - 0.5 * cosine(phase) + 0.08 * cosine(2 * phase);
        }
    }
}

static void power_spectrum(const Complex *x, double *power, int n) {
    for (int i = 0; i <= n / 2; i++)
        power[i] = (x[i].re * x[i].re + x[i].im * x[i].im) / n;
}

static int find_peak(const double *power, int n) {
    int best = 1;
    for (int i = 2; i <= n / 2; i++)
        if (power[i] > power[best] + 1e-9)
            best = i;
    return best;
}

void run(int size) {
    size_t n = (size_t)size;
    Complex *roots = malloc(sizeof(Complex) * n), *x = malloc(sizeof(Complex) * n), *y = malloc(sizeof(Complex) * n);
    double *a = malloc(sizeof(double) * n), *b = malloc(sizeof(double) * n), *out = malloc(sizeof(double) * n);
    make_roots(roots, size);
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < size; i++) {
            a[i] = sine(0.3 * i * (kind + 1)) + 0.2 * next_real();
            b[i] = i < 16 ? 1.0 / 16 : 0;
        }
        mix_real(goertzel(a, size, 5 + kind));
        convolve(a, b, out, x, y, roots, size);
        for (int i = 0; i < size; i += 7)
            mix_real(out[i]);
        apply_window(a, size, kind);
        for (int i = 0; i < size; i++)
            x[i] = (Complex){a[i], 0};
        fft(x, roots, size, 0);
        power_spectrum(x, out, size);
        mix((uint64_t)find_peak(out, size));
        for (int i = 0; i <= size / 2; i += 5)
            mix_real(out[i]);
    }
    free(roots);
    free(x);
    free(y);
    free(a);
    free(b);
    free(out);
}
