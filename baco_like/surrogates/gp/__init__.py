"""The Gaussian process surrogates: closed form in NumPy, and GPyTorch; internal, import from `baco_like.surrogates`."""
