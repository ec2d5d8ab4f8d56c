"""Kernels that cheat, and right kernels with an odd signature, each with the verdict that every bench must give.

This is a problem file for C, OpenCL and CUDA: the constant GROUP chooses the arguments, the parameter `case` the
kernel. One thread runs a kernel. In the bodies GLOBAL is the address space of arrays and LONG an integer of 64 bits.
"""

from dataclasses import dataclass

import numpy as np

from baco_like.evaluators import kernels
from baco_like.evaluators.kernels import InOut, Input, Output, Scalar

GROUP = "plain"
LANGUAGE = "c"


@dataclass(frozen=True)
class Case:
    """A kernel and its verdict.

    Attributes:
        name: What it does.
        body: Its statements.
        word: The failure word; None for a value.
        message: Part of the message.
        state: Declarations of variables that outlive a launch.
        languages: Languages that can express it.
        least: Milliseconds that its value has at least.
    """

    name: str
    body: str
    word: str | None = None
    message: str = ""
    state: str = ""
    languages: tuple[str, ...] = ("c", "opencl", "cuda")
    least: float = 0.0


TWICE = "for (int i = 0; i < 16; i++) b[i] = 2 * a[i];"
C, STATIC = ("c",), ("c", "cuda")
HEADERS = ("pthread", "setjmp", "signal", "stdio", "stdlib", "string", "time", "unistd")
HEAD = "".join(f"#include <{name}.h>\n" for name in HEADERS)
LATE = (
    "static const int *from; static int *to;"
    "static void *work(void *u) { usleep(3000); for (int i = 0; i < 16; i++) to[i] = 2 * from[i]; return u; }"
)
SPIN = "for (volatile int spin = 0; spin < 2000000; spin++);"
STACK = (
    "__attribute__((noinline)) static void move_clock(void)"
    "{ struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); long *p = (long *)__builtin_frame_address(0);"
    "long now = t.tv_sec * 1000000000 + t.tv_nsec; for (int i = 2; i < 200; i++)"
    "if (p[i] < now && now - p[i] < 100000000) p[i] = now - 1000; }"
)
FORGED = (
    r"{\"number\": %d, \"at\": 1.0, \"answer\": "
    r"{\"problem\": null, \"error\": 0.0, \"notes\": {}, \"metrics\": {}}}\n"
)
SORT = (
    "LONG swaps = 0;"
    "for (int i = 1; i < 32; i++) for (int j = i; j > 0 && a[j - 1] > a[j]; j--)"
    "{ int held = a[j]; a[j] = a[j - 1]; a[j - 1] = held; swaps++; }"
    "for (int i = 0; i < 32; i++) b[i] = a[i]; count[0] = swaps;"
)
MANY = (
    "for (int i = 0; i < 5; i++) { sum[i] += x * a[i]; total[i] += (LONG)a[i] * k + u; copy[i] += 1;"
    "half2[i] = half1[i]; pair2[2 * i] = pair1[2 * i]; pair2[2 * i + 1] = -pair1[2 * i + 1];"
    "flag2[i] = !flag1[i]; real[i] = d * i; }"
)
KNOWN = ", ".join(
    "{" + ", ".join(str(2 * n) for n in np.random.default_rng(seed).integers(1, 1000, 16)) + "}"
    for seed in (0, 1)
).join("{}")
SPECIAL = (
    "for (int i = 0; i < 16; i++)"
    "{ b[i] = a[i] < 0 ? (a[i] - a[i]) / (a[i] - a[i]) : a[i]; c[i] = a[i] < 0 ? -1 : 7; d[i] = a[i] < 0; }"
)
TYPES = {
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned LONG",
    "complex128": "double",
    "bfloat16": "unsigned short",
}
"""C types of elements that the group "many" does not have."""
EACH = (
    "for (int i = 0; i < 5; i++) {"
    + "".join(f"r{k}[i] = a{k}[i] + 1;" for k in range(6))
    + "r6[2 * i] = a6[2 * i]; r6[2 * i + 1] = -a6[2 * i + 1]; r7[i] = a7[i]; }"
)
BY_VALUE = {
    "bool": "_Bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "_Float16",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
GROUPS = {
    "plain": (
        "GLOBAL int *a, GLOBAL int *b",
        [
            Case("right", TWICE),
            Case("writes nothing", "", "correctness", "element 0 is -1 instead of"),
            Case(
                "skips its work where the output is right",
                f"if (b[15] == 2 * a[15]) return; {TWICE}",
            ),
            Case("spoils its input", f"{TWICE} for (int i = 0; i < 16; i++) a[i] = 0;"),
            Case(
                "writes behind its output",
                f"{TWICE} b[17] = 1;",
                "correctness",
                "a write 4 bytes after the end of argument 1",
            ),
            Case(
                "writes before its input",
                f"{TWICE} a[-1] = 1;",
                "correctness",
                "a write 1 bytes before the start of argument 0",
            ),
            Case("is wrong by one", f"{TWICE} b[3]++;", "correctness", "1 of 16 elements is wrong"),
            Case(
                "takes the maximum with its output",
                "for (int i = 0; i < 16; i++) if (2 * a[i] > b[i]) b[i] = 2 * a[i];",
                "correctness",
            ),
            Case(
                "has the results of two seeds",
                f"int known[2][16] = {KNOWN}; for (int k = 0; k < 2; k++)"
                "if (known[k][0] == 2 * a[0]) for (int i = 0; i < 16; i++) b[i] = known[k][i];",
                "correctness",
                "with inputs of seed",
            ),
            Case(
                "keeps its result",
                f"if (!has) {{ {TWICE} for (int i = 0; i < 16; i++) kept[i] = b[i]; has = 1; }}"
                "for (int i = 0; i < 16; i++) b[i] = kept[i];",
                "correctness",
                " of 16 elements are wrong",  # one may be right by chance
                "int has; STATE int kept[16];",
                STATIC,
            ),
            Case(
                "keeps results by their inputs",
                f"int k = 0; while (k < has && memcmp(seen[k], a, 64)) k++; if (k == has) {{ {SPIN} {TWICE}"
                "memcpy(seen[k], a, 64); memcpy(kept[k], b, 64); has++; } memcpy(b, kept[k], 64);",
                "correctness",
                "the kernel keeps results of earlier launches",
                "int has; static int seen[64][16], kept[64][16];",
                C,
            ),
            Case(
                "prepares itself in its first launch",
                f"if (!has) {{ {SPIN} has = 1; }} {TWICE}",
                state="int has;",
                languages=C,
            ),
            Case(
                "knows one kind of inputs only",
                f"if (a[0] == 850) {{ {TWICE} }} else {{ for (int i = 0; i < 16; i++) b[i] = 0; }}",
                "correctness",
                "with inputs of seed",
            ),
            Case(
                "works in its first two launches",
                f"if (calls++ > 1) return; {TWICE}",
                "correctness",
                "16 of 16 elements are wrong",
                "int calls;",
                STATIC,
            ),
            Case(
                "skips the first timed launch",
                f"if (calls++ == 1) return; usleep(2000); {TWICE}",
                "correctness",
                "16 of 16 elements are wrong",
                "int calls;",
                C,
            ),
            Case(
                "writes far behind its output",
                f"{TWICE} b[1 << 20] = 1;",
                "correctness",
                "a write 4194240 bytes after the end of argument 1",
                languages=C,
            ),
            Case(
                "writes far before its input",
                f"{TWICE} a[-(1 << 18)] = 1;",
                "correctness",
                "a write 1048576 bytes before the start of argument 0",
                languages=C,
            ),
            Case(
                "spoils its input from the third launch on",
                f"{TWICE} if (calls++ > 1) a[5] = -1;",
                "correctness",
                "",
                "int calls;",
                STATIC,
            ),
            Case(
                "works for one array only",
                f"if (calls++ == 1) first = b; if (first && first != b) return; {TWICE}",
                "correctness",
                "in one of several launches of a sample",
                "int *first, calls;",
                C,
            ),
            Case(
                "writes in the next page behind its output",
                f"{TWICE} b[16 + 1300] = 1;",
                "correctness",
                "a write 5200 bytes after the end of argument 1",
            ),
            Case(
                "writes before its output",
                f"{TWICE} b[-1100] = 1;",
                "correctness",
                "bytes before the start of argument 1",
            ),
            Case(
                "writes one row of a tile too much",
                f"{TWICE} b[16 + 100000] = 1;",
                "correctness",
                "a write 400000 bytes after the end of argument 1",
                languages=("opencl", "cuda"),
            ),
            Case(
                "hides its writes far behind its output",
                f"{TWICE} signal(SIGSEGV, leave); if (!sigsetjmp(place, 1)) b[1 << 20] = 1;",
                "correctness",
                "the kernel handles SIGSEGV",
                "sigjmp_buf place; static void leave(int s) { siglongjmp(place, s); }",
                C,
            ),
            Case(
                "changes the clock on the stack",
                f"{TWICE} usleep(2000); move_clock();",
                None,
                "",
                f"int unused; {STACK}",
                C,
                least=2.0,
            ),
            Case(
                "reads far behind its input",
                f"{TWICE} volatile int next = a[16 + 4]; b[3] += 0 * next;",
                "correctness",
                "bytes after the end of argument 0",
                languages=C,
            ),
            Case(
                "needs an alignment that nobody promises",
                "for (int i = 0; i < 4; i++) { __m128i v = _mm_load_si128((__m128i *)a + i);"
                "_mm_storeu_si128((__m128i *)b + i, _mm_add_epi32(v, v)); }",
                "correctness",
                "if every caller aligns one, declare it",
                "int unused;\n#include <emmintrin.h>\n",
                languages=C,
            ),
            Case(
                "hides the end of its row by a mask",
                "int skip = ((unsigned long)a & 63) / 4; int *p = (int *)((unsigned long)a & ~63ul);"
                "for (int i = 0; i < 16; i++) b[i] = 2 * p[i];",
                "correctness",
                languages=C,
            ),
            Case(
                "follows a null pointer",
                "b = 0; b[1 << 4] = 1;",
                "runtime",
                "SIGSEGV; if kernel has other arguments than (int32 *, int32 *)",
                languages=C,
            ),
            Case("raises a fault", f"{TWICE} raise(SIGSEGV);", "runtime", "SIGSEGV", languages=C),
            Case("exits", "exit(0);", "runtime", "exit code 0", languages=C),
            Case(
                "exits later",
                f"{TWICE} if (calls++ > 1) _exit(0);",
                "runtime",
                "exit code 0",
                "int calls;",
                C,
            ),
            Case("aborts", "abort();", "runtime", "SIGABRT", languages=C),
            Case("prints", f'{TWICE} printf("x\\n"); fflush(stdout);', languages=C),
            Case("closes its output", f"{TWICE} close(1); close(2);", languages=C),
            Case(
                "forges an answer",
                f'for (int f = 3; f < 30; f++) for (int n = 0; n < 9; n++) dprintf(f, "{FORGED}", n); exit(0);',
                "runtime",
                languages=C,
            ),
            Case(
                "ends in a thread",
                "pthread_t t; from = a; to = b; pthread_create(&t, 0, work, 0); pthread_detach(t);",
                "correctness",
                state=f"int unused; {LATE}",
                languages=C,
            ),
            Case(
                "ends in a child",
                f"if (!fork()) {{ {TWICE} _exit(0); }}",
                "correctness",
                languages=C,
            ),
            Case("returns twice", f"if (!fork()) {{ {TWICE} }}", "correctness", languages=C),
            Case(
                "has its own clock",
                TWICE,
                state="int unused; int clock_gettime(clockid_t c, struct timespec *t)"
                "{ t->tv_sec = 1; t->tv_nsec = 0; return 0; }",
                languages=C,
            ),
        ],
    ),
    "sort": (
        "GLOBAL int *a, GLOBAL int *b, GLOBAL LONG *count",
        [Case("sorts in place", SORT)],
    ),
    "aligned": (
        "GLOBAL int *a, GLOBAL int *b",
        [
            Case(
                "uses the alignment that is declared",
                "for (int i = 0; i < 4; i++) { __m128i v = _mm_load_si128((__m128i *)a + i);"
                "_mm_store_si128((__m128i *)b + i, _mm_add_epi32(v, v)); }",
                None,
                "",
                "int unused;\n#include <emmintrin.h>\n",
                languages=C,
            ),
        ],
    ),
    "const": (
        "int k, GLOBAL const int *a, GLOBAL int *const b",
        [
            Case("right", TWICE),
            Case(
                "casts its input",
                f"{TWICE} for (int i = 0; i < 16; i++) ((GLOBAL int *)a)[i] = 0;",
                "correctness",
                "a write to argument 1, which is declared constant",
            ),
            Case(
                "reads scratch memory before it writes to it",
                "int *s = malloc(1 << 18); for (int i = 0; i < 16; i++)"
                "{ s[i + 8000] += 2 * a[i]; b[i] = s[i + 8000]; }",
                "correctness",
                "16 of 16 elements are wrong",
                languages=C,
            ),
        ],
    ),
    "constant": (
        "GLOBAL int *a, GLOBAL int *b, GLOBAL LONG *count",
        [
            Case(
                "sorts a constant in place",
                SORT,
                "correctness",
                "argument 0, which is declared constant",
            )
        ],
    ),
    "many": (
        "GLOBAL int *a, int k, float x, double d, unsigned char u, GLOBAL float *sum, GLOBAL LONG *total,"
        "GLOBAL int *copy, GLOBAL short *half1, GLOBAL short *half2, GLOBAL float *pair1, GLOBAL float *pair2,"
        "GLOBAL char *flag1, GLOBAL char *flag2, GLOBAL double *real",
        [
            Case("right", MANY),
            Case(
                "is wrong by one in 2**59",
                f"{MANY} total[2]++;",
                "correctness",
                "argument 6: element 2",
            ),
            Case(
                "has a wrong imaginary part",
                f"{MANY} pair2[9] = pair1[9];",
                "correctness",
                "argument 11: element 4",
            ),
        ],
    ),
    "special": (
        "GLOBAL float *a, GLOBAL float *b, GLOBAL int *c, GLOBAL char *d",
        [
            Case("right", SPECIAL),
            Case(
                "does not write a right NaN",
                SPECIAL.replace("b[i] =", "if (a[i] >= 0) b[i] ="),
                "correctness",
                "argument 1: element",
            ),
            Case(
                "does not write a right -1",
                SPECIAL.replace("c[i] =", "if (a[i] >= 0) c[i] ="),
                "correctness",
                "argument 2: element",
            ),
            Case(
                "does not write a right true",
                SPECIAL.replace("d[i] =", "if (a[i] >= 0) d[i] ="),
                "correctness",
                "argument 3: element",
            ),
            Case(
                "does not write a right false",
                SPECIAL.replace("d[i] =", "if (a[i] < 0) d[i] ="),
                "correctness",
                "argument 3: element",
            ),
            Case(
                "takes the maximum with NaN",
                SPECIAL.replace(": a[i];", ": b[i] > a[i] ? b[i] : a[i];"),
                "correctness",
                "argument 1: element",
            ),
            Case(
                "takes the minimum with NaN",
                SPECIAL.replace(": a[i];", ": b[i] < a[i] ? b[i] : a[i];"),
                "correctness",
                "argument 1: element",
            ),
            Case("needs NaN", f"if (b[0] == b[0]) return; {SPECIAL}", "correctness"),
        ],
    ),
    "types": (
        ", ".join(f"GLOBAL {c} *{name}{k}" for name in "ar" for k, c in enumerate(TYPES.values())),
        [
            Case("right", EACH),
            Case(
                "is wrong by one of 256", f"{EACH} r0[2]++;", "correctness", "argument 8: element 2"
            ),
            Case(
                "is wrong by one of 2**64",
                f"{EACH} r5[2]--;",
                "correctness",
                "argument 13: element 2",
            ),
            Case("is wrong by a sign", f"{EACH} r7[2] ^= 0x8000;", "correctness", "argument 15:"),
        ],
    ),
    "by value": (
        ", ".join(f"{c} s{k}" for k, c in enumerate(BY_VALUE.values())) + ", double *b",
        [
            Case(
                "right",
                "".join(f"b[{k}] = s{k};" for k in range(9))
                + "b[9] = __imag__ s9; b[10] = __imag__ s10;",
                languages=C,
            )
        ],
    ),
    "none": ("GLOBAL int *b", [Case("has no input", "for (int i = 0; i < 16; i++) b[i] = i;")]),
}


def cases(language):
    """Return pairs of a group and the number of a case."""
    return [
        (group, number)
        for group, (_, listed) in GROUPS.items()
        for number, case in enumerate(listed)
        if language in case.languages
    ]


def inputs(size, rng):
    if GROUP == "none":
        return ()
    if GROUP == "special":
        return (rng.permutation(np.arange(-8, 8)).astype(np.float32),)
    if GROUP == "types":
        whole = [
            rng.integers(0, 2**8, 5),
            rng.integers(0, 2**8, 5),
            *rng.integers(0, 2**16, (2, 5)),
        ]
        whole += [rng.integers(0, 2**32, 5), rng.integers(2**63, 2**64, 5, np.uint64)]
        pairs = rng.normal(size=5) + 1j * rng.normal(size=5)
        arrays = [each.astype(name) for each, name in zip(whole, TYPES, strict=False)]
        return (*arrays, pairs, kernels.to_bfloat16(rng.uniform(1, 2, 5)))
    if GROUP == "by value":
        given = (True, -7, 200, -300, 60000, 2**32 - 1, -(2**63), 2**63, 0.5, 1 + 2j, 3 - 4j)
        return tuple(np.dtype(t).type(v) for t, v in zip(BY_VALUE, given, strict=True))
    if GROUP == "const":
        return 7, rng.integers(1, 1000, 16).astype(np.int32)
    if GROUP != "many":
        return (
            rng.integers(1, 1000, 16 if GROUP in ("plain", "aligned") else 32).astype(np.int32),
        )
    a, sums = rng.integers(2**28, 2**29, 5).astype(np.int32), rng.uniform(1, 2, 5)
    pairs = (rng.normal(size=5) + 1j * rng.normal(size=5)).astype(np.complex64)
    halves, flags = rng.uniform(size=5).astype(np.float16), rng.integers(0, 2, 5).astype(bool)
    return a, 2**30, 0.5, 0.25, 200, sums.astype(np.float32), halves, pairs, flags


def expected(*values):
    if GROUP == "none":
        return np.arange(16, dtype=np.int32)
    if GROUP in ("plain", "aligned", "const"):
        return 2 * values[-1]
    if GROUP == "special":
        (a,) = values
        is_negative = a < 0
        right = np.where(is_negative, np.nan, a).astype(np.float32)
        return right, np.where(is_negative, -1, 7).astype(np.int32), is_negative
    if GROUP == "types":
        *whole, pairs, brain = values
        with np.errstate(over="ignore"):
            return (*(each + each.dtype.type(1) for each in whole), np.conj(pairs), brain)
    if GROUP == "by value":
        return np.array([float(v.imag if v.dtype.kind == "c" else v) for v in values])
    if GROUP != "many":
        a = values[0]
        swaps = sum(int((a[:i] > a[i]).sum()) for i in range(a.size))
        return np.sort(a), np.array([swaps], np.int64)
    a, k, x, d, u, sums, halves, pairs, flags = values
    total = a.astype(np.int64) * k + u
    real = float(d) * np.arange(5.0)
    return (sums + x * a).astype(np.float32), total, a + 1, halves, np.conj(pairs), ~flags, real


def _arguments(size):
    if GROUP == "aligned":
        return [Input(alignment=16), Output(alignment=64)]
    if GROUP == "const":
        return [Scalar("int32"), Input(), Output()]
    if GROUP == "constant":
        return [Input(constant=True), Output(), Output()]
    scalars = [Scalar("int32"), Scalar("float32"), Scalar("float64"), Scalar("uint8")]
    starts = [InOut(), Output(start=0), Output(start=lambda a, *others: a)]
    copies = [Input(), Output(), Input(), Output(), Input(), Output()]
    return [Input(), *scalars, *starts, *copies, Output(start=np.ones(5))]


def source(config, size):
    """Return the kernel of a case in C."""
    return text("", "long long", "static", "void kernel", "", [config["case"]], HEAD)


def text(space, long, state, kernel, only, numbers, head=""):
    parameters, listed = GROUPS[GROUP]
    parts = [head, f"#define GLOBAL {space}\n#define LONG {long}\n#define STATE {state}"]
    for number in numbers:
        case = listed[number]
        if len(numbers) > 1:
            parts.append(f"#if case == {number}")
        declared = f"STATE {case.state}" if case.state else ""
        parts.append(f"{declared}\n{kernel}({parameters})\n{{ {only} {case.body} }}")
        if len(numbers) > 1:
            parts.append("#endif")
    return "\n".join(parts) + "\n"


KERNEL = "run"


def __getattr__(name):
    if name == "arguments" and GROUP in ("aligned", "const", "constant", "many"):
        return _arguments
    if name == "SOURCE":
        numbers = [number for group, number in cases(LANGUAGE) if group == GROUP]
        if LANGUAGE == "opencl":
            first = "if (get_global_id(0)) return;"
            return text("__global", "long", "", "__kernel void run", first, numbers)
        return text("", "long long", "__device__", 'extern "C" __global__ void run', "", numbers)
    raise AttributeError(name)


def macros(size):
    return {}


def launch(config, size):
    return (1,), (1,)
