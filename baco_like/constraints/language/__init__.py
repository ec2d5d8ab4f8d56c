"""The language of constraints: from text to a whitelisted tree to functions. Nothing is ever run as Python."""
