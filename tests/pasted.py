"""Run the Python examples of a Markdown file as one script."""

import re

import forked


def blocks(page):
    """Return the source of each Python example of a page, without those under the comment `<!-- excerpt -->`."""
    return re.findall(r"(?<!<!-- excerpt -->\n)```python\n(.*?)```", page.read_text(), re.S)


def write(page, folder, *changes):
    """Write the examples of a page to one script, in order, with replaced texts, and return its path."""
    script = folder / "pasted.py"
    code = "\n".join(blocks(page))
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    script.write_text(code)
    return script


def run(page, folder, *changes):
    """Run the examples of a page together, in order, with `folder` as the working directory."""
    return forked.run(write(page, folder, *changes), cwd=folder)
