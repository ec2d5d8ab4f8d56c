"""MkDocs hooks: pages may include files of the repository root, and link to files outside `docs`.

A page that holds `<!-- include: ARCHITECTURE.md -->` shows that file, so each text exists once. A relative link to a
page of the site is kept. A link to another file of the repository (an example, a benchmark) becomes its path, because
the site has no copy of it.
"""

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.M)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def _page_of_included_files():
    """Map each included file to the page that shows it."""
    pages = {}
    for page in DOCS.rglob("*.md"):
        for name in INCLUDE.findall(page.read_text()):
            pages[(ROOT / name).resolve()] = page
    return pages


PAGE_OF = _page_of_included_files()


def _rewrite_links(markdown, source, page):
    """Make the relative links of `source` valid on `page`.

    Args:
        markdown: Text in which links are relative to `source`.
        source: The file that the text comes from.
        page: The page of the site that shows it.
    """

    def rewrite(match):
        text, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        file = (source.parent / path).resolve()
        file = PAGE_OF.get(file, file)
        if file.is_relative_to(DOCS) and file.is_file():
            relative = os.path.relpath(file, page.parent)
            return f"[{text}]({relative}{'#' + anchor if anchor else ''})"
        if not file.exists():
            return match[0]  # MkDocs reports the broken link
        name = f"`{file.relative_to(ROOT)}`"
        return name if text.strip("`") in (name.strip("`"), path) else f"{text} ({name})"

    markdown = IMAGE.sub(lambda match: f"*{match[1]}: see `{match[2]}`*", markdown)
    return LINK.sub(rewrite, markdown)


def on_page_markdown(markdown, page, config, files):
    """Insert included files and rewrite links that leave `docs`."""
    own = Path(page.file.abs_src_path)

    def include(match):
        source = ROOT / match[1]
        return _rewrite_links(source.read_text(), source, own)

    return INCLUDE.sub(include, _rewrite_links(markdown, own, own))
