"""Restore the default signal handlers, which a background job ignores, and switch the check of the machine off."""

import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["BACO_LIKE_MACHINE_CHECK"] = "0"  # the notes depend on what else the machine does
