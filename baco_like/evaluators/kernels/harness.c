/* Launches a kernel and takes the time, in the process that has loaded it.

   Lines before this one define LAUNCH(kernel, a): a call of the kernel with the array `a` of pointers to its arguments.
   It is a library of its own, so that no function of the kernel takes the place of the clock. */

#define _POSIX_C_SOURCE 200809L
#define _XOPEN_SOURCE 700
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { PIECE = 1 << 16 };

static volatile int64_t start; /* not on the stack, where a faulty kernel may write */

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Return the smallest difference of two readings of the clock, in nanoseconds. */
int64_t clock_step(void)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 10000; i++) {
        int64_t first = now(), difference = now() - first;
        if (difference > 0 && difference < least) least = difference;
    }
    return least;
}

/* Launch the kernel `count` times, each with its own arguments; return the nanoseconds of all launches.

   SIGALRM ends the process after `limit` seconds. The `captured` arrays are copied at once, from their ends, as kernels
   write forwards: what a kernel writes after it has returned is not in the copy. */
int64_t launch(void *kernel, void ***arguments, int64_t count, double limit, int captured, void **from, void **to,
               const int64_t *sizes)
{
    suseconds_t rest = (suseconds_t)((limit - (double)(time_t)limit) * 1e6);
    struct itimerval timer = {{0, 0}, {(time_t)limit, rest}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    start = now();
    for (int64_t i = 0; i < count; i++) LAUNCH(kernel, arguments[i]);
    int64_t end = now();
    for (int k = 0; k < captured; k++)
        for (int64_t rest = sizes[k], size; rest > 0; rest -= size) {
            size = rest < PIECE ? rest : PIECE;
            memcpy((char *)to[k] + rest - size, (char *)from[k] + rest - size, (size_t)size);
        }
    setitimer(ITIMER_REAL, &off, NULL);
    return end - start;
}
