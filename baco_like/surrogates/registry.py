"""Names of surrogates, for the setting ``surrogate`` of the model-based strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import FixedGaussianProcess, GaussianProcess
from baco_like.surrogates.protocol import Surrogate

ClosedForm = GaussianProcess | FixedGaussianProcess

SURROGATES: Mapping[str, Callable[[ClosedForm, str], Surrogate]] = {
    "gp": lambda closed_form, device: closed_form,
    "gpytorch": lambda closed_form, device: closed_form.to_gpytorch(device),
    "forest": lambda closed_form, device: RandomForest(),
}
"""The closed-form Gaussian process, the same model in GPyTorch, a random forest."""


def create_surrogate(name: str, closed_form: ClosedForm, device: str = "auto") -> Surrogate:
    """Return the surrogate with this name.

    Args:
        name: A key of `SURROGATES`.
        closed_form: The strategy's Gaussian process: returned for "gp", translated for "gpytorch".
        device: Torch device of "gpytorch": "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: The name is unknown, or a device is given for a surrogate that runs on the CPU only.
        StrategyError: This machine has no such device.
    """
    if name not in SURROGATES:
        raise ValueError(f"surrogate {name!r} is unknown; choose from {', '.join(SURROGATES)}")
    if name != "gpytorch" and device not in ("auto", "cpu"):
        raise ValueError(
            f"device = {device!r} needs surrogate = 'gpytorch'; surrogate {name!r} runs on the CPU"
        )
    return SURROGATES[name](closed_form, device)
