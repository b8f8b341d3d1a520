"""The slips of which ZynML alone says what is written instead: what both languages say is in grammars/slip_tables.py."""

import re

from grammars.slip_tables import NAME, OPERAND, OPERAND_ENDS, to_closer
from grammars.slips import LINE_ENDS, Groups, Slip


def _lambda(groups: Groups) -> Groups | None:
    body = to_closer(groups["body"])
    parameters = groups["parameters"]
    if not body or "*" in parameters:
        return None
    return {"function": f"{parameters} => {body}" if re.fullmatch(NAME, parameters) else f"def({parameters}): {body}"}


def _or(groups: Groups) -> Groups | None:
    bools = {"true", "false"} & {groups["left"], groups["right"]}
    return {"instead": f"{groups['left']} or {groups['right']}" if bools else f"bit_or({groups['left']}, {groups['right']})"}


def _assigned(groups: Groups) -> Groups | None:
    name, operator, value = groups["name"], groups["operator"], groups["value"]
    return {"instead": f"bit_or({name}, {value})" if operator == "|" else f"{name} {operator} {value}"}


SLIPS: tuple[Slip, ...] = (
    Slip(
        "lambda",
        "write `{function}`",
        line=r"\blambda\b(?P<parameters>[^:\n]*):(?P<body>[^\n]*)",
        words=_lambda,
        message="`lambda` isn't a word of this language",
        rest=1,
    ),
    Slip(
        "bitwise or, assigned",
        "write `{name} = {instead}`",
        line=rf"(?P<name>{OPERAND})\s*(?P<operator>\||&|<<|>>|\*\*)=(?!=)(?P<value>[^;\n]+)",
        found=frozenset(["=", "|"]),
        words=_assigned,
        message="`{operator}=` isn't an operator",
    ),
    Slip(
        "bitwise or",
        "write `{instead}`",
        line=rf"(?P<left>{OPERAND})\s*\|\s*(?P<right>{OPERAND})",
        found=frozenset(["|"]),
        words=_or,
        message="`|` isn't an operator",
    ),
    Slip("bitwise or of expressions", "write `bit_or(a, b)` for ints, `or` for bools", found=frozenset(["|"]), forbids=frozenset(["BAR"])),
    Slip("with", "leave it out: `load(path)` reads a file whole", previous=frozenset(["with"]), found=OPERAND_ENDS),
    Slip("is None", "write `x.is_none()` or `x.is_some()`", line=r"\bis\s+(?:not\s+)?None\b", found=frozenset(["is"])),
    Slip(
        "except",
        "write `catch`, as in `catch ValueError as e:`",
        found=LINE_ENDS,
        allows=frozenset(["CATCH"]),
        forbids=frozenset(["NUMBER"]),
        message="a `try` is followed by its `catch`",
        rest=2,
    ),
    Slip(
        "except alone",
        "write `catch`, as in `catch ValueError as e:`",
        line=r"^\s*except\b[^\n]*",
        message="`except` isn't a word of this language",
        rest=1,
    ),
    Slip("raise", 'write `throw ValueError {{ message: "text" }}`', previous=frozenset(["raise"]), found=OPERAND_ENDS),
    Slip(
        "struct in a header",
        "put the struct in parentheses: `({name} {{ ... }})`",
        line=r"\b(?:if|elif|while|in|match)\b[^{\n]*?(?P<name>\b[A-Z]\w*(?:<[^<>\n]*>)?)\s*\{\s*\w+\s*:\s*[^\s}]+",
        message="a `{{` in this header begins its block",
        rest=1,
    ),
    Slip(
        "class",
        "write `struct` for its fields, and `impl` for its methods",
        previous=frozenset(["class", "interface"]),
        found=frozenset(["NAME"]),
    ),
)
