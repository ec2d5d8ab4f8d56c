"""A service for programs in any language: JSON-RPC 2.0 over standard input and output, or over HTTP.

`messages` defines the protocol, `methods` answers requests, `runs` keeps the runs; `stdio` and `http` are transports.
"""
