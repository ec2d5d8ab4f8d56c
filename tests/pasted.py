"""Python examples of a Markdown file, run as one script by a fresh interpreter."""

import re
import subprocess
import sys


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


def run(page, folder, *flags):
    script = folder / "pasted.py"
    script.write_text("\n".join(blocks(page)))
    command = [sys.executable, *flags, script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
