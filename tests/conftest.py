"""Restore the default signal handlers: a background job ignores Ctrl-C, and so would the children of the tests."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
