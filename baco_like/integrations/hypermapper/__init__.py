"""HyperMapper and BaCO: their client-server protocol, scenarios and files of samples.

``from baco_like.integrations import hypermapper as optimizer`` replaces the import of their module ``optimizer``.
"""

from baco_like.integrations.hypermapper.server import optimize

__all__ = ["optimize"]
