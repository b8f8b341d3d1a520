"""Build hook: makes the parser tables, so that the wheel carries them and no installation makes them anew."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TablesHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel (or an editable installation) is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from grammars import loader

            loader.ship()
        finally:
            sys.path.remove(str(root))
        for table in sorted((root / "grammars" / "tables").glob("*.json")):
            build_data["force_include"][str(table)] = f"grammars/tables/{table.name}"
