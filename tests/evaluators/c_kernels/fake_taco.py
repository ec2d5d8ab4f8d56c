"""A program in taco's place: it takes the same command line and writes plain loops, or does what taco may do.

Where the variable FAKE_TACO is set, the split factor `chunk` says what: see FAULTS. The kernels know the layout of the
tensors, not the schedule.
"""

import os
import re
import signal
import sys
import time

TYPES = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef enum { taco_mode_dense, taco_mode_sparse } taco_mode_t;
typedef struct {
  int32_t order; int32_t *dimensions; int32_t csize; int32_t *mode_ordering; taco_mode_t *mode_types;
  uint8_t ***indices; uint8_t *vals; uint8_t *fill_value; int32_t vals_size;
} taco_tensor_t;
#define V(T) ((double *)T->vals)
#define POS(m) ((int32_t *)B->indices[m][0])
#define CRD(m) ((int32_t *)B->indices[m][1])
#define IN(m, p, q) for (int p = POS(m)[q]; p < POS(m)[q + 1]; p++)
"""

START = """
int compute(%s) {
  FAULT
  memset(A->vals, 0, sizeof(double) * A->vals_size);
  for (int i = 0; i < B->dimensions[0]; i++)
"""

KERNELS = {
    "A(i)=B(i,j)*C(j)": "IN(1, p, i) V(A)[i] += V(B)[p] * V(C)[CRD(1)[p]];",
    "A(i,k)=B(i,j)*C(j,k)": """IN(1, p, i) for (int k = 0, n = C->dimensions[1]; k < n; k++)
      V(A)[i * n + k] += V(B)[p] * V(C)[CRD(1)[p] * n + k];""",
    "A(i,j)=B(i,j)*C(i,k)*D(k,j)": """IN(1, p, i)
      for (int k = 0, n = C->dimensions[1], w = A->dimensions[1]; k < n; k++)
        V(A)[i * w + CRD(1)[p]] += V(B)[p] * V(C)[i * n + k] * V(D)[k * w + CRD(1)[p]];""",
    "A(i,j)=B(i,k,l,m)*C(k,j)*D(l,j)*E(m,j)": """IN(1, p, i) IN(2, q, p) IN(3, r, q)
      for (int j = 0, n = A->dimensions[1]; j < n; j++)
        V(A)[i * n + j] += V(B)[r] * V(C)[CRD(1)[p] * n + j] * V(D)[CRD(2)[q] * n + j] * V(E)[CRD(3)[r] * n + j];""",
    "A(i,j)=B(i,j,k)*C(k)": """IN(1, p, i) IN(2, q, p)
      V(A)[i * A->dimensions[1] + CRD(1)[p]] += V(B)[q] * V(C)[CRD(2)[q]];""",
}

FAULTS = {
    2: "",  # taco ends with SIGABRT
    4: "undeclared = 0;",
    8: "C = A;",
    32: "for (volatile int x = 1; x;) { }",
    64: "raise_it();",
    128: 'if (strcmp(getenv("OMP_SCHEDULE"), "dynamic,4") || strcmp(getenv("OMP_NUM_THREADS"), "2")) return 1;',
    256: "",  # taco hangs
}

expression, *options = sys.argv[1:]
named = dict(
    option.split("=", 1) for option in options if option.startswith(("-s=", "-write-source="))
)
chunk = "FAKE_TACO" in os.environ and int(re.search(r"split\(\w+,\w+,\w+,(\d+)\)", named["-s"])[1])
if chunk == 2:
    print("terminate called after throwing an instance of 'taco::TacoException'", file=sys.stderr)
    print(
        "  what():  Error at transformations.cpp:1 in f: loop must not merge",
        file=sys.stderr,
        flush=True,
    )
    os.kill(os.getpid(), signal.SIGABRT)
if chunk == 256:
    time.sleep(60)
tensors = re.findall(r"([A-Z])\(", expression)
assert [option[:4] for option in options[: len(tensors)]] == [f"-f={name}:"[:4] for name in tensors]
assert "-print-nocolor" in options
arguments = ", ".join(f"taco_tensor_t *{name}" for name in tensors)
fault = FAULTS.get(chunk, "").replace("raise_it()", "*(volatile int *)0 = 1")
text = TYPES + START % arguments + KERNELS[expression] + "\n  return 0;\n}\n"
with open(named["-write-source"], "w") as file:
    file.write(text.replace("FAULT", fault))
