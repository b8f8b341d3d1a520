"""Codes 03xx: shapes, symbolic sizes, indices and axes of tensors."""

from compiler.codes.entry import code

CODES = (
    code(
        "0301",
        "shapes don't fit",
        """The operands' shapes can't be combined. Elementwise operators align axes from the last one; two axes fit when they are
        equal or one of them is 1. In `a @ b` the columns of `a` are the rows of `b`.""",
        "let a = zeros(2, 3)\nlet b = zeros(2, 4)\nprintln(a + b)\n",
        "let a = zeros(2, 3)\nlet b = zeros(2, 1)\nprintln(a + b)\n",
    ),
    code(
        "0302",
        "size bound to two values",
        """A name for a size stands for one number in each call and in each kernel. Here two places give it different values; the
        message shows both equations.""",
        "let a = zeros(4)\nlet b = zeros(5)\nlet y = compute(a, b) {\n    for i in 0..N:\n        out[i] = a[i] + b[i]\n}\n",
        "let a = zeros(4)\nlet b = zeros(4)\nlet y = compute(a, b) {\n    for i in 0..N:\n        out[i] = a[i] + b[i]\n}\n",
    ),
    code(
        "0303",
        "size can't be determined",
        """A name in a loop's bound is neither a variable nor a size that follows from how inputs are indexed, or the extent of a
        result depends on data. State it: set a variable before the block, name the size in an input's type, or declare the
        result's type.""",
        "let x = zeros(4)\nlet y = compute(x) {\n    for i in 0..M:\n        out[i] = 1.0\n}\n",
        "let x = zeros(4)\nlet M = 3\nlet y = compute(x) {\n    for i in 0..M:\n        out[i] = 1.0\n}\n",
    ),
    code(
        "0304",
        "wrong number of indices",
        """A tensor takes one index an axis; host code may leave out the last ones, which gives a slice.""",
        "let x = zeros(2, 3)\nprintln(x[0, 1, 2])\n",
        "let x = zeros(2, 3)\nprintln(x[0, 1])\n",
    ),
    code(
        "0305",
        "index always outside",
        """The index is outside of the axis for every run of the program. In kernels a negative index doesn't count from the end.""",
        "let x = zeros(8)\nlet y = compute(x) {\n    for i in 0..8:\n        out[i] = x[i - 1]\n}\n",
        "let x = zeros(8)\nlet y = compute(x) {\n    for i in 0..8:\n        out[i] = i > 0 ? x[i - 1] : 0.0\n}\n",
    ),
    code(
        "0306",
        "reshape changes the number of elements",
        """A reshape keeps all elements: the product of the new extents equals the product of the old ones.""",
        "let x = zeros(2, 3)\nprintln(x.reshape(4, 2))\n",
        "let x = zeros(2, 3)\nprintln(x.reshape(3, 2))\n",
    ),
    code(
        "0307",
        "axis outside of the rank",
        """A tensor of rank r has axes 0 to r - 1; -1 is the last one.""",
        "let x = zeros(2, 3)\nprintln(x.sum(axis = 2))\n",
        "let x = zeros(2, 3)\nprintln(x.sum(axis = 1))\n",
    ),
)
