"""Tables of measured results and the file formats of other tools."""
