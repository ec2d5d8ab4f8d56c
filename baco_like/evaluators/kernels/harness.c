/* Launches a kernel and takes the time, in the process that has loaded it.

   Lines before this one define LAUNCH(kernel, a): a call of the kernel with the array `a` of pointers to its arguments.
   It is a library of its own, so that no function of the kernel takes the place of the clock. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#if defined(__linux__) && defined(__x86_64__)
#include <ucontext.h> /* macOS refuses it */
#endif

enum { LANES = 4 };

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

/* Where a fault is noted, for the worker, which outlives this process: its signal, its code, the address, and whether it
   is a read (1) or a write (2), or not known (0). */
int64_t *noted;

static const int faults[] = {SIGSEGV, SIGBUS};

int handles_faults; /* Whether the kernel has set a handler of them. */

/* Note a fault, and let it end the process. */
void note_fault(int number, siginfo_t *fault, void *context)
{
#if defined(__linux__) && defined(__x86_64__)
    noted[3] = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? 2 : 1;
#else
    (void)context;
#endif
    noted[0] = number, noted[1] = fault->si_code, noted[2] = (int64_t)(intptr_t)fault->si_addr;
    signal(number, SIG_DFL);
    raise(number);
}

/* Return the largest memory that this process has had, in bytes. */
static int64_t peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
    return usage.ru_maxrss;
#else
    return (int64_t)usage.ru_maxrss * 1024;
#endif
}

enum { LEAST_FILLED = 1 << 20, MOST_FILLED = 1 << 30 };

static volatile int64_t memory, filled; /* at the last alarm or the start of the launches; and since that start */

/* End the process at the time limit. But what a launch allocates may be filled, and filling is not its work: as long as
   its memory grows, it gets the time to fill that at 500 MB a second. */
static void end_late(int number)
{
    int64_t grown = peak_memory() - memory;
    memory += grown, filled += grown;
    if (grown < LEAST_FILLED || filled > MOST_FILLED) {
        signal(number, SIG_DFL);
        raise(number);
    }
    int64_t microseconds = grown / 500;
    struct itimerval timer = {{0, 0}, {(time_t)(microseconds / 1000000), (suseconds_t)(microseconds % 1000000)}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

/* Return a hash of an array, which is another one with another `seed`. The array is read from its end. */
uint64_t digest(const char *data, int64_t size, uint64_t seed)
{
    uint64_t sums[LANES], words[LANES]; /* lanes do not wait for each other */
    for (int k = 0; k < LANES; k++) sums[k] = seed;
    for (; size >= (int64_t)sizeof words; size -= (int64_t)sizeof words) {
        memcpy(words, data + size - sizeof words, sizeof words);
        for (int k = 0; k < LANES; k++) sums[k] = mix(sums[k], words[k]);
    }
    while (size > 0) sums[0] = mix(sums[0], (unsigned char)data[--size]);
    for (int k = 1; k < LANES; k++) sums[0] = mix(sums[0], sums[k]);
    return sums[0];
}

/* Launch the kernel `count` times, each with its own arguments; return the nanoseconds of all launches.

   SIGALRM ends the process after `limit` seconds, see `end_late`. The digests of the outputs are taken at once, from their ends, as
   kernels write forwards: what a kernel writes after it has returned changes the digest. */
int64_t launch(void *kernel, void ***arguments, int64_t count, double limit, uint64_t seed, int outputs, void **at,
               const int64_t *sizes, uint64_t *digests)
{
    suseconds_t rest = (suseconds_t)((limit - (double)(time_t)limit) * 1e6);
    struct itimerval timer = {{0, 0}, {(time_t)limit, rest}}, off = {{0, 0}, {0, 0}};
    struct sigaction noting = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO}, usual[2], found;
    struct sigaction ending = {.sa_handler = end_late, .sa_flags = SA_RESTART};
    for (int k = 0; k < 2; k++) sigaction(faults[k], &noting, &usual[k]);
    memory = peak_memory(), filled = 0;
    sigaction(SIGALRM, &ending, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    start = now();
    for (int64_t i = 0; i < count; i++) LAUNCH(kernel, arguments[i]);
    int64_t end = now();
    for (int k = 0; k < outputs; k++) digests[k] = digest(at[k], sizes[k], seed);
    setitimer(ITIMER_REAL, &off, NULL);
    for (int k = 0; k < 2; k++) {
        sigaction(faults[k], &usual[k], &found);
        handles_faults |= found.sa_sigaction != note_fault;
    }
    return end - start;
}
