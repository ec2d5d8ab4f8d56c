"""Signals as on a terminal, also where the tests run in the background, whose children would ignore Ctrl-C."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
