"""Names of surrogates, for the setting ``surrogate`` of the model-based strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baco_like._plugins import Plugin, Registry
from baco_like.surrogates.effects import SparseEffects
from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import FixedGaussianProcess, GaussianProcess
from baco_like.surrogates.protocol import Surrogate

ClosedForm = GaussianProcess | FixedGaussianProcess

SURROGATES: Mapping[str, Callable[[ClosedForm, str], Surrogate]] = {
    "gp": lambda closed_form, device: closed_form,
    "gpytorch": lambda closed_form, device: closed_form.to_gpytorch(device),
    "forest": lambda closed_form, device: RandomForest(),
    "effects": lambda closed_form, device: SparseEffects(),
}
"""The closed-form Gaussian process, the same model in GPyTorch, a random forest, the effects of many parameters."""

REGISTRY = Registry("baco_like.surrogates", "surrogate", SURROGATES, "gp")
"""`SURROGATES`, and the surrogates of plug-ins."""


def create_surrogate(name: str, closed_form: ClosedForm, device: str = "auto") -> Surrogate:
    """Return the surrogate with this name.

    Args:
        name: A key of `SURROGATES`, or the name of a plug-in.
        closed_form: The strategy's Gaussian process: returned for "gp", translated for "gpytorch".
        device: Torch device of "gpytorch": "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: The name is unknown, or a device is given for a surrogate that runs on the CPU only.
        StrategyError: This machine has no such device.
        PluginError: The plug-in cannot be imported, or makes something else than a surrogate.
    """
    part = REGISTRY.find(name)
    if name != "gpytorch" and device not in ("auto", "cpu"):
        raise ValueError(
            f"device = {device!r} needs surrogate = 'gpytorch'; surrogate {name!r} runs on the CPU"
        )
    if not isinstance(part, Plugin):
        return part(closed_form, device)
    surrogate: Surrogate = part.create(("fit",))
    return surrogate
