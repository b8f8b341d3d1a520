"""Codes 02xx: names, types, arguments."""

from compiler.codes.entry import code

CODES = (
    code(
        "0201",
        "undefined name",
        """No variable, function or type of this name is in scope. In the bounds of a kernel's loops a name may also be a size: one
        that a declared type names, or that is solved from how inputs are indexed.""",
        "let weights = zeros(3)\nprintln(wieghts)\n",
        "let weights = zeros(3)\nprintln(weights)\n",
    ),
    code(
        "0202",
        "unknown field, method or module",
        """The value has no such field or method, or there is no module of this name beside the file or in the library. The message
        lists what the type has.""",
        "let x = zeros(3)\nprintln(x.legnth())\n",
        "let x = zeros(3)\nprintln(x.shape())\n",
    ),
    code(
        "0203",
        "type mismatch",
        """A value of one type stands where another is expected. The message says which type was found, which one is expected, and
        where that expectation comes from.""",
        'let n: int = "three"\n',
        "let n: int = 3\n",
    ),
    code(
        "0204",
        "wrong arguments",
        """The call gives too few or too many arguments, names one that the function doesn't have, or gives one twice.""",
        "def area(width: f32, height: f32): f32 { width * height }\nprintln(area(2.0))\n",
        "def area(width: f32, height: f32): f32 { width * height }\nprintln(area(2.0, height = 3.0))\n",
    ),
    code(
        "0205",
        "assignment to what can't change",
        """`let` variables, parameters and loop variables keep their value. A variable that changes is declared with `mut` or `var`.""",
        "let count = 0\ncount = count + 1\n",
        "mut count = 0\ncount = count + 1\n",
    ),
    code(
        "0206",
        "match not exhaustive",
        """The arms of a `match` leave some value uncovered; the message names one.""",
        "fn sign(s: Side) -> int {\n  match s { Buy => 1 }\n}\n",
        "fn sign(s: Side) -> int {\n  match s { Buy => 1, Sell => -1 }\n}\n",
        language="quantdsl",
    ),
    code(
        "0207",
        "conversion that may lose something",
        """Values convert by themselves only where nothing is lost: an int to a wider int or to a float, f32 to f64. Any other
        conversion is written with `as`.""",
        "let x = 2.75\nlet n: i32 = x\n",
        "let x = 2.75\nlet n: i32 = x as i32\n",
    ),
    code(
        "0208",
        "operator undefined for types",
        """The operator has no meaning for operands of these types.""",
        'println(3 - "x")\n',
        'println(f"{3}x")\n',
    ),
    code(
        "0209",
        "missing result on a path",
        """The function declares a result, but one way through its body ends without a value.""",
        "def sign_of(x: int): int {\n    if x < 0 { return -1 }\n}\nprintln(sign_of(2))\n",
        "def sign_of(x: int): int {\n    if x < 0 { return -1 }\n    1\n}\nprintln(sign_of(2))\n",
    ),
    code(
        "0210",
        "duplicate definition",
        """The name is already taken in this place: two functions, two parameters, or two fields of one name.""",
        "def f(x: int): int { x }\ndef f(y: int): int { y + 1 }\n",
        "def f(x: int): int { x }\ndef g(y: int): int { y + 1 }\n",
    ),
    code(
        "0211",
        "modules import each other",
        """A module is compiled and run before what imports it, so no chain of imports may come back to where it began. The message shows
        the chain, with the place of each import. Move what the modules share into one that imports none of them.""",
    ),
    code(
        "0212",
        "variable without a value",
        """A variable that is declared without a value is read where some path has not assigned it. Optionals, rings and tables begin
        empty, and need no value. In ZynML the read stops the program (ZYN0808).""",
        "fn f(n: int) -> int {\n    var x: int\n    if n > 0 { x = n }\n    x\n}\n",
        "fn f(n: int) -> int {\n    var x: int\n    if n > 0 { x = n } else { x = 0 }\n    x\n}\n",
        language="quantdsl",
    ),
)
