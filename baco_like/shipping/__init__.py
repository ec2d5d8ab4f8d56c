"""Write the winners of runs as files that other programs load: C headers, JSON tables, Python modules and more."""

from baco_like.shipping.formats import ship
from baco_like.shipping.json_table import read_table
from baco_like.shipping.sources import ShippedRun, make_table
from baco_like.shipping.stamp import Stamp
from baco_like.shipping.table import Evidence, ShippedEntry, ShippedTable

__all__ = [
    "Evidence",
    "ShippedEntry",
    "ShippedRun",
    "ShippedTable",
    "Stamp",
    "make_table",
    "read_table",
    "ship",
]
