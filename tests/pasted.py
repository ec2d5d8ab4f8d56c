"""Run the Python examples of a Markdown file as one script, in a fresh interpreter."""

import re
import subprocess
import sys


def blocks(page):
    """Return the source of each Python example of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def run(page, folder, *flags):
    """Run the examples of a page together, in order, with `folder` as the working directory."""
    script = folder / "pasted.py"
    script.write_text("\n".join(blocks(page)))
    command = [sys.executable, *flags, script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
