"""``python -m baco_like`` is ``baco-like``."""

import sys

from baco_like.cli import main

sys.exit(main())
