"""Tables that other tuners have recorded, as `baco_like.storage.recorded` reads them."""

from baco_like.storage.recorded import Entry, Recorded, cache_entry, load

__all__ = ["Entry", "Recorded", "cache_entry", "load"]
