"""Every C header that a test of this folder writes is compiled, as C and as C++."""

import pytest
from headers import compile_headers

from baco_like.shipping.formats import FORMATS


@pytest.fixture(autouse=True)
def _written_headers_compile(monkeypatch, tmp_path_factory):
    written = {}
    write = FORMATS["c"]

    def write_and_collect(*args, **options):
        data = write(*args, **options)
        written[data] = None
        return data

    monkeypatch.setitem(FORMATS, "c", write_and_collect)
    yield
    folder = tmp_path_factory.mktemp("headers")
    paths = [folder / f"{i}.h" for i in range(len(written))]
    for path, data in zip(paths, written, strict=True):
        path.write_bytes(data)
    compile_headers(paths)
