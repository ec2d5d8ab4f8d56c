"""gest-api: a generator for libEnsemble, Xopt and optimas."""
