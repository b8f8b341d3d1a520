"""QuantDSL's trees as JSON and back, by the machinery of all languages."""

from compiler.typed_ast.json import SHARED_MODULES, TreeJson
from quantdsl import nodes, types

_TREE = TreeJson(*SHARED_MODULES, nodes, types)
to_json, from_json, to_data, from_data = _TREE.to_json, _TREE.from_json, _TREE.to_data, _TREE.from_data
