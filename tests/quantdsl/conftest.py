"""A cache of the run, which its processes share: the engine is compiled once for all of them."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZYNTAX_CACHE_DIR", str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"))
        yield
