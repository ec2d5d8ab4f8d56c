"""Run the Python examples of a Markdown file as one script."""

import re

import forked


def blocks(page):
    """Return the source of each Python example of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def write(page, folder):
    """Write the examples of a page to one script, in order, and return its path."""
    script = folder / "pasted.py"
    script.write_text("\n".join(blocks(page)))
    return script


def run(page, folder):
    """Run the examples of a page together, in order, with `folder` as the working directory."""
    return forked.run(write(page, folder), cwd=folder)
