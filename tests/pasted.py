"""Run the Python examples of a Markdown file as one script."""

import re

import forked


def blocks(page):
    """Return the source of each Python example of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def write(page, folder, change=("", "")):
    """Write the examples of a page to one script, in order, with a replaced text, and return its path."""
    script = folder / "pasted.py"
    code = "\n".join(blocks(page))
    assert change[0] in code
    script.write_text(code.replace(*change) if change[0] else code)
    return script


def run(page, folder, change=("", "")):
    """Run the examples of a page together, in order, with `folder` as the working directory."""
    return forked.run(write(page, folder, change), cwd=folder)
