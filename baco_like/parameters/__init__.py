"""The five parameter types (real, integer, ordinal, categorical, permutation), their scales, priors and distances."""
