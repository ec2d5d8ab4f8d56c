"""Points in flight: condition the model on fantasies of their values."""

from __future__ import annotations

from baco_like._typing import Codes
from baco_like.surrogates.protocol import UpdatableModel


def condition_on_pending(model: UpdatableModel, codes: Codes) -> UpdatableModel:
    """Return the model that believes its own means at the points in flight ("kriging believer").

    Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize optimization" (2010).
    Means stay as they are everywhere, while the variance about these points falls, so the next
    point goes elsewhere.

    Args:
        model: Fitted to what is known.
        codes: Points in flight, ``(m, w)``; none is fine.
    """
    if len(codes) == 0:
        return model
    return model.condition(codes, model.predict(codes)[0])
