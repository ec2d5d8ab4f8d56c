"""MkDocs hooks: pages may include files of the repository root, and link to files outside `docs`.

A page that holds `<!-- include: ARCHITECTURE.md -->` shows that file, so each text exists once. A relative link to a
page of the site is kept. A link to another file of the repository (an example, a benchmark) becomes its path, because
the site has no copy of it, and so does an image outside `docs`. `<!-- public names -->` becomes the list of all public
names, with an example of each.
"""

import ast
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

    def show(match):
        text, target = match.groups()
        file = (source.parent / target).resolve()
        if file.is_relative_to(DOCS):
            return f"![{text}]({os.path.relpath(file, page.parent)})"
        return f"*{text}: see `{target}`*"

    return LINK.sub(rewrite, IMAGE.sub(show, markdown))


FIRST = ("own_loop", "spaces", "stopping", "parallel", "resume", "errors", "tasks", "limits")
"""The examples that come first where several use a name."""


def imported_names(code):
    """Return the pairs (module, name) that a program imports, or reads as an attribute of an imported module."""
    pairs, modules = set(), {}
    nodes = list(ast.walk(ast.parse(code)))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                pairs.add((node.module, alias.name))
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            pairs.add((modules.get(node.value.id), node.attr))
    return pairs


def names_of(package):
    """Return the literal `__all__` of a package or module, without an import: what it needs may be missing here."""
    place = ROOT / package.replace(".", "/")
    source = place / "__init__.py"
    source = source if source.exists() else place.with_suffix(".py")
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    return []


def public_names():
    """Return the public names of each documented package, each with the script or page that uses it, or None."""
    examples = {f"examples/{name}.py": None for name in FIRST}
    examples |= {
        str(file.relative_to(ROOT)): None for file in sorted(ROOT.glob("examples/**/*.py"))
    }
    uses = {file: imported_names((ROOT / file).read_text()) for file in examples}
    for file in (ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))):
        code = re.findall(r"```python\n(.*?)```", file.read_text(), re.S)
        uses[str(file.relative_to(ROOT))] = set().union(*map(imported_names, code))
    found = {}
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    packages = re.findall(r"^::: ([\w.]+)$", pages, re.M)
    for package in packages:  # it grows by their public subpackages
        names = names_of(package)
        found[package] = {
            name: next((file for file, pairs in uses.items() if (package, name) in pairs), None)
            for name in names
        }
        folder = ROOT / package.replace(".", "/")
        packages += [
            f"{package}.{name}" for name in names if (folder / name / "__init__.py").exists()
        ]
    for names in found.values():  # a name of the root is usually imported from there
        names.update({n: found["baco_like"].get(n) for n, file in names.items() if file is None})
    return dict(sorted(found.items()))


def _public_names_table():
    lines = []
    for package, names in public_names().items():
        if names:
            lines += [f"## `{package}`", "", "| used in | names |", "|---|---|"]
        for file in dict.fromkeys(names.values()):
            own = ", ".join(f"`{name}`" for name, other in names.items() if other == file)
            lines.append(f"| {f'`{file}`' if file else 'see the reference'} | {own} |")
        lines.append("")
    return "\n".join(lines)


def on_page_markdown(markdown, page, config, files):
    """Insert included files and the public names, and rewrite links that leave `docs`."""
    if "<!-- public names -->" in markdown:
        return markdown.replace("<!-- public names -->", _public_names_table())
    own = Path(page.file.abs_src_path)

    def include(match):
        source = ROOT / match[1]
        return _rewrite_links(source.read_text(), source, own)

    return INCLUDE.sub(include, _rewrite_links(markdown, own, own))
