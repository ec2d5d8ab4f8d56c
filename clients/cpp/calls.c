/* Small functions that call each other: which calls are worth inlining? */
#include <stdio.h>

static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

static int mix(int a, int b)
{
    int mixed = a;
    for (int i = 0; i < 4; i++) mixed = mixed * 31 + (b ^ (mixed >> 3));
    return mixed;
}

static int weigh(const int *values, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++) sum += clamp(values[i], -100, 100);
    return sum;
}

static int fold(const int *values, int count)
{
    int state = 7;
    for (int i = 0; i < count; i++) state = mix(state, values[i]);
    return state;
}

static int judge(const int *values, int count)
{
    if (weigh(values, count) > 50) return clamp(fold(values, count), 0, 9);
    return mix(weigh(values, count), fold(values, count)) & 15;
}

int main(void)
{
    int values[16], total = 0;
    for (int i = 0; i < 16; i++) values[i] = mix(i, 3) % 200;
    for (int i = 1; i <= 16; i++) total = mix(total, judge(values, i));
    printf("%d %d %d\n", total, weigh(values, 16), fold(values, 16));
    return 0;
}
