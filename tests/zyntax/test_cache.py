"""`--no-cache`: nothing is read from the user's cache and nothing kept there."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from runtime.cache.store import store
from zyntax.options import no_cache


@pytest.mark.parametrize(("given", "kept"), [((), True), (("--no-cache",), False)])
def test_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], kept: bool) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZYNTAX_CACHE", "on")

    @click.command()
    @no_cache
    def command() -> None:
        click.echo(store() is not None)

    assert CliRunner().invoke(command, given).output == f"{kept}\n"
