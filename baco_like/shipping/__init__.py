"""Write the winners of runs as files that other programs load: C headers, JSON tables, Python modules and more."""

from baco_like.shipping.formats import FORMATS, ship
from baco_like.shipping.json_table import read_table, table_schema
from baco_like.shipping.sources import ShippedRun, entry_of_run, make_table, run_of
from baco_like.shipping.stamp import Stamp, read_stamp
from baco_like.shipping.table import Evidence, ShippedEntry, ShippedTable

__all__ = [
    "FORMATS",
    "Evidence",
    "ShippedEntry",
    "ShippedRun",
    "ShippedTable",
    "Stamp",
    "entry_of_run",
    "make_table",
    "read_stamp",
    "read_table",
    "run_of",
    "ship",
    "table_schema",
]
