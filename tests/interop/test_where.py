"""Where a block runs that is given other libraries' arrays: there, unless somebody says otherwise."""

import numpy as np
import pytest
from foreign import ByDlpack

import zynml
from runtime.cuda.gpu import gpu as gpu_of

PROGRAM = """
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def there(x: tensor[N], by: f32): tensor { compute(x, by) @device("cuda:0") { for i in 0..N: out[i] = x[i] * by } }
def here(x: tensor[N], by: f32): tensor { compute(x, by) @device("cpu") { for i in 0..N: out[i] = x[i] * by } }
def add(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }
"""
ONES = np.ones(3, np.float32)


def test_a_block_runs_where_its_input_lies(fake, gpu):
    result = zynml.compile(PROGRAM).scale(ByDlpack(gpu, ONES), 2.0)
    assert result.device == "cuda:0" and fake.calls["cuLaunchKernelEx"] == 1


@pytest.mark.parametrize(("options", "function"), [({"device": "cpu"}, "scale"), ({}, "here"), ({"device": "cpu"}, "there")])
def test_a_named_device_counts_more(fake, gpu, options, function):
    result = getattr(zynml.compile(PROGRAM, **options), function)(ByDlpack(gpu, ONES), 2.0)
    assert type(result) is np.ndarray and result.tolist() == [2.0] * 3
    assert fake.calls["cuLaunchKernelEx"] == 0


@pytest.mark.parametrize("fake", [2], indirect=True)
def test_an_array_of_another_gpu_is_copied_between_them(fake):
    x = ByDlpack(gpu_of(1), ONES)
    program = zynml.compile(PROGRAM)
    result = program.there(x, 2.0)
    assert result.device == "cuda:0" and np.asarray(result).tolist() == [2.0] * 3
    assert fake.calls["cuMemcpyPeerAsync"] == 1 and fake.calls["cuMemcpyHtoDAsync"] == 1, "that of the test"
    # with gaps it goes by way of the host
    assert np.asarray(program.there(ByDlpack(gpu_of(1), np.arange(6, dtype=np.float32)[::2]), 2.0)).tolist() == [0.0, 4.0, 8.0]
    assert program.scale(x, 2.0).device == "cuda:1"


@pytest.mark.parametrize("fake", [2], indirect=True)
def test_arrays_of_two_gpus_in_one_block_are_an_error(fake):
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(PROGRAM).add(ByDlpack(gpu_of(0), ONES), ByDlpack(gpu_of(1), ONES))
    assert caught.value.codes == ("ZYN0501",)
    assert "`x` lies on `cuda:0` and `y` on `cuda:1`" in str(caught.value)
