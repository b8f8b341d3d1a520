"""QuantDSL texts for tests: the programs of this folder, and trees in a short form."""

from pathlib import Path
from typing import Any

from compiler.source import Source
from quantdsl.parse import parse_expression, parse_source
from quantdsl.tree_json import to_data

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.qdsl"))
_UNSHOWN = ("is", "span", "name_span", "operator_span", "record_span", "event_span", "currency_span", "instrument_span", "name_spans", "braces", "visibility")


def short(data: Any) -> str:
    """A tree as `Class(field=value, ...)`, without places and without what tells the styles of blocks apart."""
    match data:
        case dict():
            fields = [f"{key}={short(value)}" for key, value in data.items() if key not in _UNSHOWN]
            return f"{data['is']}({', '.join(fields)})"
        case list():
            return f"[{', '.join(short(item) for item in data)}]"
    return repr(data)


def statements(text: str) -> list[str]:
    return [short(to_data(statement)) for statement in parse_source(Source("p.qdsl", text)).statements]


def expression(text: str) -> str:
    """An expression in prefix form: what binds to what."""
    return _brief(to_data(parse_expression(text)))


def _brief(data: dict[str, Any]) -> str:
    match data["is"]:
        case "Binary":
            return f"({data['operator']} {_brief(data['left'])} {_brief(data['right'])})"
        case "Unary":
            return f"({data['operator']} {_brief(data['operand'])})"
        case "Name" | "Field" if "value" not in data:
            return str(data["name"])
        case "Field":
            return f"{_brief(data['value'])}.{data['name']}"
        case "IntLiteral":
            return str(data["value"])
        case "FloatLiteral":
            return f"{data['text']}f"
        case "UnitNumber":
            return f"{data['text']}`{data['unit']}"
        case "Propagate":
            return f"(? {_brief(data['value'])})"
        case "Call":
            return f"{_brief(data['function'])}({', '.join(_brief(a['value']) for a in data.get('arguments', []))})"
        case "Repeat":
            return f"[{_brief(data['element'])}; {_brief(data['count'])}]"
        case "Conditional":
            return f"(if {_brief(data['condition'])} {_brief(data['then'])} {_brief(data['otherwise'])})"
    return short(data)
