"""A gest-api generator for libEnsemble, Xopt and optimas."""
