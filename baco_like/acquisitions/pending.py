"""Pending trials: condition the model on imputed values, so that the next suggestion goes elsewhere."""

from __future__ import annotations

from baco_like._typing import Codes
from baco_like.surrogates.protocol import UpdatableModel


def condition_on_pending(model: UpdatableModel, codes: Codes) -> UpdatableModel:
    """Return the model conditioned on its own means at the pending configurations ("kriging believer").

    Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize optimization" (2010). The means do not
    change anywhere, while the variance near these configurations falls.

    Args:
        model: Fitted to the observations.
        codes: Pending configurations, ``(m, w)``; may be empty.
    """
    if len(codes) == 0:
        return model
    return model.condition(codes, model.predict(codes)[0])
