"""The slips that are known: tables only, and what their hints are made of. slips.py asks them."""

import re

from grammars.slips import LINE_ENDS, Groups, Slip
from grammars.words import kinds

# ---- what the hints are made of -------------------------------------------------------------------------------------------

NAME = r"[A-Za-z_]\w*"
OPERAND = rf"(?:{NAME}(?:\.{NAME})*|[\d.]+\w*)(?:\[[^\[\]\n]*\]|\([^()\n]*\))?"
_C_TYPE = (
    r"(?:(?:const|static|unsigned|signed|constexpr|inline)\s+)*"
    r"(?:int|float|double|char|bool|long long|long|short|size_t|u?int(?:8|16|32|64)_t|auto|string|void)\b"
)
_TYPES = {
    "double": "f64",
    "float": "f32",
    "char": "u8",
    "long": "int",
    "long long": "int",
    "short": "i16",
    "size_t": "u64",
    "string": "String",
}


def _type_of_c(written: str) -> str:
    word = re.sub(r"\b(?:const|static|signed|constexpr|inline)\s+", "", written)
    unsigned = word.startswith("unsigned")
    word = re.sub(r"^unsigned\s+", "", word)
    sized = re.fullmatch(r"(u?)int(\d+)_t", word)
    if sized:
        return f"{'u' if sized[1] else 'i'}{sized[2]}"
    return "u32" if unsigned and word == "int" else _TYPES.get(word, word)


def to_closer(text: str) -> str:
    """A text up to the bracket that closes nothing in it, or to a comma outside of brackets."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0 or (depth == 0 and character in ",;"):
            return text[:position].strip()
    return text.strip()


def _c_loop(groups: Groups) -> Groups | None:
    name, low, high, compared, step = groups["name"], groups["low"], groups["high"], groups["compared"], groups["step"].replace(" ", "")
    if step in (f"{name}++", f"++{name}"):
        amount = "1"
    elif step in (f"{name}--", f"--{name}"):
        amount = "-1"
    elif by := re.fullmatch(rf"{name}([+-])=(\w+)", step):
        amount = by[2] if by[1] == "+" else f"-{by[2]}"
    else:
        return None
    if compared.startswith(">") != amount.startswith("-") and compared != "!=":
        return None
    wide = rf"[\w.]+|{OPERAND}|[^<>=]+"
    if not re.fullmatch(wide, low) or not re.fullmatch(wide, high):
        return None
    return {"range": f"{low}..{'=' if '=' in compared and compared != '!=' else ''}{high}{'' if amount == '1' else f' step {amount}'}"}


def _c_variable(groups: Groups) -> Groups | None:
    return {"type": _type_of_c(groups["type"])} if groups["type"] != "void" else None


def _c_function(groups: Groups) -> Groups | None:
    parameters = []
    for written in filter(None, (p.strip() for p in groups["parameters"].split(","))):
        parameter = re.fullmatch(rf"({_C_TYPE})\s+({NAME})", written)
        if parameter is None and written != "void":
            return None
        parameters += [f"{parameter[2]}: {_type_of_c(parameter[1])}"] if parameter else []
    result = "" if groups["type"].endswith("void") else f": {_type_of_c(groups['type'])}"
    return {"signature": f"{groups['name']}({', '.join(parameters)}){result}"}


def _c_cast(groups: Groups) -> Groups | None:
    return {"type": _type_of_c(groups["type"])}


def _assertion(groups: Groups) -> Groups | None:
    condition = to_closer(groups["condition"])
    text = groups["condition"][len(condition) :].strip().removeprefix(",").strip()
    return {"call": f"assert({condition}, {text})" if text else f"assert({condition})"} if condition else None


_BEGINS = re.compile(rf"(?:return|break|continue)\b|{NAME}(?:\.{NAME}|\[[^\[\]]*\])*[ \t]*(?:\(|[-+*/%]?=(?!=))")


def _comparison(groups: Groups) -> Groups | None:
    return {"same": "!=" if groups["negated"] else "=="} if groups["right"] != "None" else None


# ---- the table ------------------------------------------------------------------------------------------------------------

OPERAND_ENDS = kinds("NAME NUMBER INT STRING FSTRING RPAR RSQB RBRACE TRUE FALSE QPOST GEN_GT")

SLIPS: tuple[Slip, ...] = (
    # Functions.
    Slip(
        "starred parameter",
        "take a list: write `{name}`",
        line=rf"(?<=[(,])\s*\*\*?(?P<name>{NAME})",
        found=kinds("STAR STARSTAR"),
        message="a function has no parameters beyond those that it names",
    ),
    Slip(
        "body behind =",
        "write `{head} {{ {body} }}`",
        line=rf"(?P<head>\b(?:def|fn)\s+{NAME}\([^()\n]*\)[^=\n]*?)\s*=(?P<body>[^=\n].*)",
        found=frozenset(["="]),
        message="the body of a function stands in a block",
    ),
    Slip(
        "function of C",
        "write `def {signature} {{`",
        line=rf"^\s*(?P<type>{_C_TYPE})\s+(?P<name>{NAME})\s*\((?P<parameters>[^()\n]*)\)\s*\{{?",
        words=_c_function,
        message="a function begins with `def`",
        rest=1,
    ),
    # Loops and conditions.
    Slip(
        "for of C",
        "write `for {name} in {range}`",
        line=rf"\bfor\b\s*\(?\s*(?:(?:{_C_TYPE}|let|var|mut)\s+)?(?P<name>{NAME})\s*:?=(?P<low>[^;\n]+);"
        rf"\s*(?P=name)\s*(?P<compared><=|>=|<|>|!=)(?P<high>[^;\n]+);(?P<step>[^(){{\n]*?)(?=\)|\{{|$|:)\)?",
        words=_c_loop,
        message="a loop runs over a range",
        rest=1,
    ),
    Slip(
        "endless for of C",
        "write `while true`",
        line=r"\bfor\b\s*\(\s*;\s*;\s*\)",
        message="a loop runs over a range",
        rest=1,
    ),
    Slip(
        "another for of C",
        "write `for i in 0..n`, or a `while` loop",
        line=r"\bfor\b\s*\(?[^;\n]*;[^;\n]*;[^\n]*",
        message="a loop runs over a range",
        rest=1,
    ),
    Slip(
        "condition behind else",
        "write `elif {condition}`",
        line=r"\belse[ \t]+(?!if\b)(?P<condition>[^{:\n]+[{:])",
        previous=frozenset(["else"]),
    ),
    Slip(
        "else of a loop",
        "put its lines behind the loop, without `else`",
        line=r"^\s*else\s*[:{]",
        found=frozenset(["else"]),
        message="`else` stands behind an `if` only",
    ),
    Slip("elif first", "write `if`", line=r"^\s*elif\b", found=frozenset(["elif"]), message="`elif` stands behind an `if` only"),
    Slip(
        "for of C++",
        "write `for {name} in {values}`",
        line=rf"\bfor\s*\(\s*(?:(?:{_C_TYPE})\s*[&*]*\s*|let\s+|var\s+|const\s+)?(?P<name>{NAME})\s*(?::|\bof\b|\bin\b)\s*(?P<values>[^(){{}}\n]+)\)",
        message="a loop runs over a range, a list or a tensor",
        rest=1,
    ),
    Slip(
        "then", "write `:` instead of `{found}`", found=frozenset(["then", "do"]), header=kinds("IF ELIF WHILE FOR"), allows=kinds("COLON")
    ),
    Slip(
        "is",
        "write `{left} {same} {right}`",
        line=rf"(?P<left>{OPERAND})\s+is\s+(?P<negated>not\s+)?(?P<right>{OPERAND})",
        found=frozenset(["is"]),
        words=_comparison,
    ),
    Slip(
        "statement behind a header",
        "write `{before}: {after}`",
        found=kinds("NAME RETURN BREAK CONTINUE"),
        header=kinds("IF ELIF WHILE FOR"),
        allows=kinds("COLON LBRACE"),
        words=lambda groups: {} if _BEGINS.match(groups["after"]) else None,
    ),
    Slip("assignment as a condition", "write `==` to compare", found=frozenset(["="]), header=kinds("IF ELIF WHILE")),
    Slip("===", "write `==` to compare", found=frozenset(["="]), previous=frozenset(["=", "=="])),
    Slip("!==", "write `!=` to compare", found=frozenset(["="]), previous=frozenset(["!="])),
    Slip("<>", "write `!=` to compare", line=r"<>", found=frozenset([">"]), previous=frozenset(["<"])),
    Slip(
        "switch",
        "write `match`, with an arm `value => ...` for each case",
        line=r"^\s*switch\b[^\n]*",
        message="`switch` isn't a word of this language",
        rest=1,
    ),
    Slip(
        "do",
        "write `while true {{`, and `if not (...): break` as its last line",
        line=r"^\s*do\s*(?=[{:])",
        message="`do` isn't a word of this language",
        rest=1,
    ),
    # Variables.
    Slip(
        "array of C",
        "write `mut {name} = zeros({size}, dtype={type})`",
        line=rf"^\s*(?P<type>{_C_TYPE})\s+(?P<name>{NAME})\s*\[(?P<size>\w+)\]",
        words=_c_variable,
        message="a variable begins with `let` or `mut`",
        rest=1,
    ),
    Slip(
        "parameter of C",
        "write `{name}: {type}`",
        line=rf"(?<=[(,])\s*(?P<type>{_C_TYPE})\s+(?P<name>{NAME})",
        header=frozenset(["def"]),
        words=_c_variable,
    ),
    Slip(
        "parameter of C, in brackets",
        "write `{name}: {type}`",
        line=rf"(?P<type>{_C_TYPE})\s+(?P<name>{NAME})",
        allows=kinds("COLON RPAR EQUAL"),
        forbids=frozenset(["PLUS"]),
        words=_c_variable,
    ),
    Slip(
        "variable of C with a value",
        "write `let {name} = {value}`, or `mut` if it changes",
        line=rf"(?:^|(?<=[{{;:]))\s*(?P<type>{_C_TYPE})\s+(?P<name>{NAME})\s*=(?!=)(?P<value>[^;\n]+)",
        message="a variable begins with `let` or `mut`",
    ),
    Slip(
        "field of C",
        "write `{name}: {type}`",
        line=rf"(?P<type>{_C_TYPE})\s+(?P<name>{NAME})\s*(?=;)",
        allows=frozenset(["COLON"]),
        forbids=frozenset(["PLUS"]),
        words=_c_variable,
    ),
    Slip(
        "variable of C",
        "write `mut {name}: {type} = 0`",
        line=rf"(?:^|(?<=[{{;:]))\s*(?P<type>{_C_TYPE})\s+(?P<name>{NAME})\s*(?=;|$)",
        words=_c_variable,
        message="a variable begins with `let` or `mut`",
    ),
    Slip(
        "walrus",
        "write `let {name} = {value}` on a line before",
        line=rf"\((?P<name>{NAME})\s*:=(?P<value>[^()\n]+)\)",
        message="an expression assigns nothing",
    ),
    Slip("let :=", "write `let {name} = {value}`", line=rf"(?:\blet\s+)?(?P<name>{NAME})\s*:=(?P<value>[^;\n]+)", found=frozenset(["="])),
    Slip(
        "tuple without parentheses",
        "write `let ({names}) = ({values})`",
        line=rf"^\s*(?:let\s+)?(?P<names>{NAME}(?:\s*,\s*{NAME})+)\s*=(?!=)(?P<values>[^;\n]*,[^;\n]*?)\s*(?=;|$)",
        found=frozenset([","]),
        words=lambda groups: {"values": groups["values"].removeprefix("(").removesuffix(")")},
    ),
    Slip(
        "tuple without parentheses, of a value",
        "write `let ({names}) = {value}`",
        line=rf"^\s*(?:let\s+)?(?P<names>{NAME}(?:\s*,\s*{NAME})+)\s*=(?!=)(?P<value>[^;\n]+)",
        found=frozenset([","]),
    ),
    Slip(
        "chained assignment",
        "write `{second} = {value}` on a line before",
        line=rf"\b{NAME}\s*=\s*(?P<second>{NAME})\s*=(?!=)(?P<value>[^=;\n]+)",
        found=frozenset(["="]),
        previous=frozenset(["NAME"]),
        forbids=frozenset(["EQUAL"]),
    ),
    Slip(
        "reserved name",
        "write another name, such as `{found}_`",
        previous=frozenset(["let", "mut", "var"]),
        found=kinds(
            "DEF FN IF ELIF ELSE WHILE FOR IN RETURN BREAK CONTINUE MATCH CASE STRUCT ENUM TRAIT IMPL IMPORT FROM TRUE FALSE AND OR NOT"
        ),
    ),
    # Operators.
    Slip(
        "increment",
        "write `{name} += 1`",
        line=rf"(?P<name>{NAME})(?:\[[^\[\]\n]*\])?\s*\+\+|\+\+\s*(?P<other>{NAME})",
        words=lambda groups: {"name": groups["name"] or groups["other"]},
        message="`++` isn't an operator",
    ),
    Slip(
        "decrement",
        "write `{name} -= 1`",
        line=rf"(?P<name>{NAME})\s*--(?=\s*(?:[;)}}]|$))",
        message="`--` isn't an operator",
    ),
    Slip(
        "address",
        "write `{name}`: tensors and lists are shared",
        line=rf"&\s*(?P<name>{NAME})",
        found=frozenset(["&"]),
        allows=frozenset(["NUMBER"]),
    ),
    Slip(
        "arrow of C",
        "write `{left}.{right}`",
        line=rf"(?P<left>{NAME})->(?P<right>{NAME})",
        found=frozenset(["->"]),
        allows=frozenset(["FATARROW"]),
    ),
    Slip("thin arrow", "write `=>` instead of `->`", found=frozenset(["->"]), allows=frozenset(["FATARROW"])),
    Slip(
        "cast of C",
        "write `{value} as {type}`",
        line=rf"\((?P<type>{_C_TYPE})\)\s*(?P<value>{OPERAND})",
        words=_c_cast,
        message="a type in parentheses converts nothing",
    ),
    Slip("new", "write `{call}`", line=rf"\bnew\s+(?P<call>{NAME}\([^()\n]*\))", message="`new` isn't a word of this language"),
    Slip("point first", "write `0{number}`", line=r"(?P<number>\.\d\w*)", found=frozenset(["."]), allows=frozenset(["NUMBER"])),
    Slip(
        "point last", "write `{number}.0`", line=r"(?<![\w.])(?P<number>\d+)\.(?!\w)", previous=frozenset(["."]), allows=frozenset(["NAME"])
    ),
    Slip(
        "operator first",
        "write `{operator}` at the end of the line above",
        line=r"^\s*(?P<operator>\+|/|%|==|!=|<=|>=|<|>|<<|>>)(?![+])",
        found=kinds("PLUS SLASH PERCENT EQ NE LE GE LT GT SHL SHR"),
        allows=frozenset(["LET"]),
    ),
    # Calls and texts.
    Slip(
        "print without parentheses",
        "write `{call}({value})`",
        line=r"(?P<call>\be?print(?:ln)?)\s+(?P<value>[^;\n]+)",
        previous=frozenset(["print", "println", "eprint", "eprintln"]),
    ),
    Slip(
        "assert without parentheses",
        "write `{call}`",
        line=r"\bassert\s+(?P<condition>[^\n;]+)",
        previous=frozenset(["assert"]),
        words=_assertion,
    ),
    Slip(
        "prefix of a string",
        "write the string without `{previous}`; a backslash in it is `\\\\`",
        previous=frozenset(["r", "b", "u", "R", "B", "U", "rb", "br"]),
        found=frozenset(["STRING"]),
        line=r"\b[rRbBuU]{1,2}[\"']",
    ),
    Slip(
        "one-line def",
        "`def f(a): T` on one line reads `T` as the result type: put the body in `{{ }}`, or on lines of its own",
        header=frozenset(["typed def"]),
        allows=frozenset(["LBRACE"]),
    ),
    Slip(
        "global",
        "leave the line out: a function may assign a `mut` variable that is declared above it",
        previous=frozenset(["global", "nonlocal"]),
        found=frozenset(["NAME"]),
    ),
    Slip(
        "if without else",
        "write `{condition} ? {value} : other`, or `if {condition}: ...` as a statement",
        line=rf"(?P<value>{OPERAND})\s+if\s+(?P<condition>[^,)\]\n]+)",
        allows=frozenset(["ELSE"]),
        forbids=frozenset(["LBRACE", "NL"]),
    ),
)

QUANTDSL_SLIPS: tuple[Slip, ...] = (
    Slip("is None", "write `x == none`", line=r"\bis\s+(?:not\s+)?None\b", found=frozenset(["is"])),
    Slip(
        "except",
        "test values before they are used, as in `if n != 0:`",
        found=LINE_ENDS,
        allows=frozenset(["CATCH"]),
        forbids=frozenset(["NUMBER"]),
        message="errors can't be caught: they stop the program",
        rest=2,
    ),
    Slip(
        "except alone",
        "test values before they are used, as in `if n != 0:`",
        line=r"^\s*except\b[^\n]*",
        message="`except` isn't a word of this language",
        rest=1,
    ),
    Slip(
        "lambda",
        "write a `fn`",
        line=r"\blambda\b[^\n]*",
        message="`lambda` isn't a word of this language",
        rest=1,
    ),
)

# What is missing, or as general: asked after the words of other languages.
GENERAL: tuple[Slip, ...] = (
    Slip("del", "leave the line out", previous=frozenset(["del", "delete"]), found=frozenset(["NAME"])),
    Slip("no size", "write how many: `[T; 8]`", found=kinds("RSQB"), allows=frozenset(["SEMICOLON"]), forbids=frozenset(["NL"])),
    Slip(
        "tuple",
        "unpack a tuple with parentheses: `let (a, b) = ...`",
        found=kinds("COMMA"),
        previous=kinds("NAME"),
        allows=kinds("EQUAL COLON"),
    ),
    Slip(
        "statement behind a block",
        "write `;` between the two, or begin a new line",
        previous=kinds("RBRACE"),
        allows=kinds("SEMICOLON"),
        found=OPERAND_ENDS - kinds("RPAR RSQB")
        | kinds("LET MUT VAR IF WHILE FOR RETURN BREAK CONTINUE DEF FN AT ELSE ELIF LBRACE COLON DOT"),
    ),
    Slip("no block", "end the line with `:`, or open a block with `{{`", found=kinds("NL INDENT"), allows=kinds("COLON LBRACE")),
    Slip("no comma", "separate the two with `,`", found=OPERAND_ENDS, previous=OPERAND_ENDS, allows=kinds("COMMA RPAR")),
    Slip(
        "no operator",
        "put the second on a line of its own, or an operator between them",
        found=OPERAND_ENDS,
        previous=OPERAND_ENDS,
        allows=kinds("NL PLUS"),
    ),
)
