"""Build hook: makes the parser tables and the hash of the compiler's files, so that the wheel carries them and no installation makes them
anew."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CarriedFilesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs around the building of a wheel, and of an editable installation, which uses the tables of its checkout."""

    made: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from grammars import loader
            from runtime.cache import contents

            loader.ship()
            if version == "editable":
                return
            for table in sorted((root / "grammars" / "tables").glob("*.json")):
                build_data["force_include"][str(table)] = f"grammars/tables/{table.name}"
            # Outside of the checkout, whose files may change: there the hash is computed when it is needed.
            self.made = Path(tempfile.mkdtemp())
            written = self.made / contents.WRITTEN
            written.write_text(contents.hash_of(contents.source_files(root)), encoding="ascii")
            build_data["force_include"][str(written)] = f"runtime/cache/{contents.WRITTEN}"
        finally:
            sys.path.remove(str(root))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.made is not None:
            shutil.rmtree(self.made, ignore_errors=True)
