"""Check the wheel and the source archive in dist/: they have all files of the package, and no tests or benchmarks.

python -m build && python .ci/check_package.py
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

DIST = Path("dist")


def main():
    """Exit with the files that are missing or do not belong there."""
    (wheel,), (archive,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    tracked = listed.stdout.splitlines()
    package = {name for name in tracked if name.startswith("baco_like/")}
    with zipfile.ZipFile(wheel) as file:
        in_wheel = {name for name in file.namelist() if ".dist-info/" not in name}
    with tarfile.open(archive) as file:
        names = {m.name.partition("/")[2] for m in file.getmembers() if m.isfile()}
    in_archive = {name for name in names if name in tracked}
    expected = {*package, "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"}
    wrong = {wheel.name: in_wheel ^ package, archive.name: in_archive ^ expected}
    for name, files in wrong.items():
        for file in sorted(files):
            print(f"{name}: {file} is missing, or does not belong there", file=sys.stderr)
    print(f"{len(package)} files of the package in {wheel.name} and {archive.name}")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
