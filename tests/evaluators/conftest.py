"""Puts the folder of this file and examples/kernels on the path, for helper modules and for ready problem files."""

import sys
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"

if str(KERNELS) not in sys.path:
    sys.path.append(str(KERNELS))
