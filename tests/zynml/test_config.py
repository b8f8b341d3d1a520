"""`config { ... }`: keys, values, and what they do to a run."""

import numpy as np
import pytest

import zynml


def message(text: str) -> str:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text).run()
    return str(caught.value)


def test_a_seed_gives_the_same_numbers_again() -> None:
    text = "config { seed: 7 }\nlet r = rand(5)\ndef f(): tensor { r }\n"
    first, second = zynml.compile(text).f(), zynml.compile(text).f()
    np.testing.assert_array_equal(first, second)
    other = zynml.compile(text.replace("7", "8")).f()
    assert not np.array_equal(first, other)


def test_an_unknown_key_names_the_nearest() -> None:
    assert message("config { sed: 7 }") == (
        "error[ZYN0202]: `config` has no key `sed`\n"
        " --> <program>:1:10\n"
        "  |\n"
        "1 | config { sed: 7 }\n"
        "  |          ^^^^^^\n"
        "hint: did you mean `seed`?"
    )


def test_a_device_that_is_not_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.cuda.driver.unavailable_reason", lambda: "this machine has no NVIDIA driver")
    assert message('config { device: "cuda:7" }') == (
        "error[ZYN0501]: there is no device `cuda:7` here\n"
        " --> <program>:1:1\n"
        "  |\n"
        '1 | config { device: "cuda:7" }\n'
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: this machine has no NVIDIA driver; devices here: cpu"
    )
