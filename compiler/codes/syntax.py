"""Codes 01xx: the text of a program, its layout and its grammar."""

from compiler.codes.entry import code

_DEEP = 201

CODES = (
    code(
        "0101",
        "unexpected token",
        """At this place the grammar allows something else. The message says in words what could stand there; the fault itself is
        often one token earlier, where something was left out.""",
        "let x = 3 +\n",
        "let x = 3 + 4\n",
    ),
    code(
        "0102",
        "bracket never closed",
        """A `{`, `(` or `[` is opened and the file ends before it is closed. The message shows the opener and the place where, by the
        indentation, it was probably meant to end.""",
        "def f(x: int): int {\n    x + 1\n\nprintln(f(2))\n",
        "def f(x: int): int {\n    x + 1\n}\n\nprintln(f(2))\n",
    ),
    code(
        "0103",
        "indentation",
        """The lines of a block that `:` opens begin in one column, with spaces only or with tabs only. This line mixes the two, or
        goes back to a column in which no open block began.""",
        "if true:\n        println(1)\n    println(2)\n",
        "if true:\n    println(1)\n    println(2)\n",
    ),
    code(
        "0104",
        "empty block",
        """After a `:` at the end of a line, the next line must be indented deeper. A block that does nothing can be written `{ }`.""",
        "if true:\nprintln(1)\n",
        "if true:\n    println(1)\n",
    ),
    code(
        "0105",
        "string",
        """A string isn't closed in its line, holds an escape that doesn't exist, or is an f-string with a fault inside its braces.
        Strings over several lines stand in triple quotes.""",
        'println("one\\q")\n',
        'println("one\\\\q")\n',
    ),
    code(
        "0106",
        "number",
        """A number isn't well formed, doesn't fit, or has a suffix that is no type and no unit.""",
        "let x = 5q\n",
        "let x = 5u8\nlet y = 0xff\n",
    ),
    code(
        "0107",
        "chained comparison",
        """Comparisons give a bool, so `a < b < c` would compare a bool with a number. Write both comparisons and join them.""",
        "let a = 2\nprintln(1 < a < 3)\n",
        "let a = 2\nprintln(1 < a and a < 3)\n",
    ),
    code(
        "0108",
        "source can't be read",
        """The file can't be opened, isn't text in UTF-8, is larger than 4 MiB, has an ending that belongs to no language, or nests
        more than 200 brackets and blocks.""",
        f"println({'(' * _DEEP}1{')' * _DEEP})\n",
        "println((1))\n",
    ),
    code(
        "0109",
        "not supported yet",
        """The program is valid, but this version doesn't compile it. The message names what works instead. Nothing is ever quietly
        left out: what isn't supported is refused.""",
        "let wide: i128 = 1\n",
        "let wide: i64 = 1\n",
    ),
    code(
        "0110",
        "language can't be used",
        """The package that registers a language for the file's ending can't be imported, was written for a newer version of zyntax, or
        registers an ending that another installed package has too. The program is not at fault.""",
    ),
)
