/* Signals: fixed-point arithmetic. FIR and IIR filters, a discrete cosine transform, ADPCM, CORDIC, square roots. */
#include "suite.h"

typedef int32_t fixed; /* 16 fractional bits */

static fixed multiply(fixed a, fixed b) { return (fixed)(((int64_t)a * b + 32768) >> 16); }

static fixed divide(fixed a, fixed b) { return b == 0 ? INT32_MAX : (fixed)(((int64_t)a << 16) / b); }

static fixed saturate(int64_t value) {
    if (value > INT32_MAX)
        return INT32_MAX;
    if (value < INT32_MIN)
        return INT32_MIN;
    return (fixed)value;
}

void fir(const int16_t *in, int16_t *out, int count, const int16_t *taps, int order) {
    for (int i = 0; i < count; i++) {
        int32_t sum = 1 << 14;
        for (int k = 0; k < order && k <= i; k++)
            sum += in[i - k] * taps[k];
        sum >>= 15;
        out[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
    }
}

typedef struct {
    fixed b0, b1, b2, a1, a2, x1, x2, y1, y2;
} Biquad;

static fixed biquad_step(Biquad *q, fixed x) {
    int64_t sum = (int64_t)q->b0 * x + (int64_t)q->b1 * q->x1 + (int64_t)q->b2 * q->x2;
    sum -= (int64_t)q->a1 * q->y1 + (int64_t)q->a2 * q->y2;
    fixed y = saturate(sum >> 16);
    q->x2 = q->x1;
    q->x1 = x;
    q->y2 = q->y1;
    q->y1 = y;
    return y;
}

void dct8(const fixed *in, fixed *out) {
    static const fixed c[8] = {65536, 64277, 60547, 54491, 46341, 36410, 25080, 12785};
    fixed s[4], d[4];
    for (int i = 0; i < 4; i++) {
        s[i] = in[i] + in[7 - i];
        d[i] = in[i] - in[7 - i];
    }
    out[0] = multiply(s[0] + s[1] + s[2] + s[3], c[4]);
    out[4] = multiply(s[0] - s[1] - s[2] + s[3], c[4]);
    out[2] = multiply(s[0] - s[3], c[2]) + multiply(s[1] - s[2], c[6]);
    out[6] = multiply(s[0] - s[3], c[6]) - multiply(s[1] - s[2], c[2]);
    out[1] = multiply(d[0], c[1]) + multiply(d[1], c[3]) + multiply(d[2], c[5]) + multiply(d[3], c[7]);
    out[3] = multiply(d[0], c[3]) - multiply(d[1], c[7]) - multiply(d[2], c[1]) - multiply(d[3], c[5]);
    out[5] = multiply(d[0], c[5]) - multiply(d[1], c[1]) + multiply(d[2], c[7]) + multiply(d[3], c[3]);
    out[7] = multiply(d[0], c[7]) - multiply(d[1], c[5]) + multiply(d[2], c[3]) - multiply(d[3], c[1]);
}

static void transform_block(fixed block[64]) {
    fixed row[8], out[8];
    for (int y = 0; y < 8; y++)
        dct8(memcpy(row, &block[8 * y], sizeof row), &block[8 * y]);
    for (int x = 0; x < 8; x++) {
        for (int y = 0; y < 8; y++)
            row[y] = block[8 * y + x];
        dct8(row, out);
        for (int y = 0; y < 8; y++)
            block[8 * y + x] = out[y] / 4;
    }
}

/* Rotates (x, 0) by an angle; returns the sine, 16 fractional bits. */
fixed cordic_sine(fixed angle) {
    static const fixed angles[16] = {51472, 30386, 16055, 8150, 4091, 2047, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2};
    fixed x = 39797, y = 0;
    for (int i = 0; i < 16; i++) {
        fixed dx = x >> i, dy = y >> i;
        if (angle >= 0) {
            x -= dy;
            y += dx;
            angle -= angles[i];
        } else {
            x += dy;
            y -= dx;
            angle += angles[i];
        }
    }
    return y;
}

fixed root(fixed value) {
    uint64_t rest = (uint64_t)value << 16, bit = 1ull << 46, result = 0;
    while (bit > rest)
        bit >>= 2;
    for (; bit; bit >>= 2) {
        if (rest >= result + bit) {
            rest -= result + bit;
            result = (result >> 1) + bit;
        } else {
            result >>= 1;
        }
    }
    return (fixed)result;
}

typedef struct {
    int predicted, index;
} Adpcm;

static int adpcm_encode(Adpcm *state, int sample) {
    static const int8_t changes[8] = {-1, -1, -1, -1, 2, 4, 6, 8};
    static const int16_t steps[] = {7,  9,  11, 13, 16,  19,  23,  28,  34,  41,  50,  60,   73,   88,   107,  130,
                                    157, 190, 230, 279, 337, 408, 494, 598, 724, 876, 1060, 1282, 1552, 1878, 2272, 2749};
    int step = steps[state->index], difference = sample - state->predicted, code = 0, change = step >> 3;
    if (difference < 0) {
        code = 8;
        difference = -difference;
    }
    for (int bit = 4; bit; bit >>= 1, step >>= 1) {
        if (difference >= step) {
            code |= bit;
            difference -= step;
            change += step;
        }
    }
    state->predicted += code & 8 ? -change : change;
    state->predicted = state->predicted > 32767 ? 32767 : state->predicted < -32768 ? -32768 : state->predicted;
    state->index += changes[code & 7];
    state->index = state->index < 0 ? 0 : state->index > 31 ? 31 : state->index;
    return code;
}

void run(int size) {
    int16_t *in = malloc(2 * (size_t)size), *out = malloc(2 * (size_t)size), taps[24];
    Biquad low = {.b0 = 4414, .b1 = 8827, .b2 = 4414, .a1 = -76193, .a2 = 28311};
    Adpcm state = {0, 0};
    for (int k = 0; k < 24; k++)
        taps[k] = (int16_t)(cordic_sine(k * 4000) / 24);
    for (int i = 0; i < size; i++)
        in[i] = (int16_t)(cordic_sine((i * 977) % 205887 - 102943) / 4 + (int)(next_random() % 512) - 256);
    fir(in, out, size, taps, 24);
    for (int i = 0; i < size; i++) {
        mix((uint64_t)out[i]);
        mix((uint64_t)biquad_step(&low, (fixed)in[i] * 256));
        mix((uint64_t)adpcm_encode(&state, in[i]));
    }
    for (int start = 0; start + 64 <= size; start += 64) {
        fixed block[64];
        for (int i = 0; i < 64; i++)
            block[i] = (fixed)in[start + i] * 16;
        transform_block(block);
        for (int i = 0; i < 64; i++)
            mix((uint64_t)block[i]);
    }
    for (int i = 1; i < size / 4; i++) {
        mix((uint64_t)root(i * 5000));
        mix((uint64_t)divide(multiply(i * 300, 70000), root(i << 12)));
    }
    free(in);
    free(out);
}
