"""Every message of lowering and of a launch, whole: the files of messages hold program and text. The line `given:` names the block's inputs:
`x f32[9]` an array of zeros, `q i32[9]=20` of twenties, `n=4` a number, `A f32[5,7] static` with extents known when compiled."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import NUMPY, errors_of, warnings_of

_FILES = ("messages.md", "messages_of_values.md")
_TEXT = "\n".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in _FILES)
_CASE = re.compile(
    r"^## (?P<title>[^\n]+)\n+given: *(?P<given>[^\n]*)\n+```zynml\n(?P<program>.*?)```\n+```text\n(?P<message>.*?)```", re.M | re.S
)
CASES = [match.groupdict() for match in _CASE.finditer(_TEXT)]


def inputs_of(given: str) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    arrays: dict[str, Any] = {}
    dims: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (one.strip() for one in given.split(";"))):
        name, rest = re.match(r"(\w+) *(.*)", part).groups()  # type: ignore[union-attr]
        tensor = re.match(r"(\w+)\[([\d, ]*)\](?:=(\S+))?( static)?$", rest)
        if tensor is None:
            text = rest.lstrip("= ")
            arrays[name] = float(text) if "." in text else int(text)
            continue
        shape = tuple(int(n) for n in tensor[2].split(",") if n.strip())
        arrays[name] = np.full(shape, float(tensor[3] or 0)).astype(NUMPY[tensor[1]])
        if tensor[4]:
            dims[name] = shape
    return arrays, dims


@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_the_whole_message(case: dict[str, str]) -> None:
    arrays, dims = inputs_of(case["given"])
    shown = errors_of(case["program"], dims, **arrays) or warnings_of(case["program"], dims, **arrays)
    assert shown == case["message"].rstrip("\n")


def test_the_file_holds_cases() -> None:
    assert len(CASES) == _TEXT.count("\n## ")
