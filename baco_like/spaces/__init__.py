"""Search spaces: parameters, known constraints and the feasible set.

`Space` is the user's entry point. `design` has initial designs, `neighbourhoods` the neighbours of configurations.
"""

from baco_like.spaces import design, neighbourhoods
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.formats.t1 import to_t1
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import Tasks

__all__ = ["FeasibleSet", "Space", "Tasks", "design", "neighbourhoods", "to_t1"]
