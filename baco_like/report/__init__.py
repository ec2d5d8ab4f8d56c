"""What a person sees of a run: the progress line, the table, the files at the end."""
