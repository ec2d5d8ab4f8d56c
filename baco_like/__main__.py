"""Run the command line by ``python -m baco_like``."""

import sys

from baco_like.cli import main

sys.exit(main())
