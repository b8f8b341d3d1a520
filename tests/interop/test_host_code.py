"""What host code does between the blocks that it calls on a GPU again and again: what was looked at once isn't looked at anew, and what is
wrong is told as at the first time. Expected values from NumPy."""

import numpy as np
import pytest
from fake_driver import OUT_OF_MEMORY

import zynml
from compiler.backends.host import conversions, support
from compiler.fusion.chains import Chains
from compiler.launch.cuda import repeats
from compiler.launch.cuda.kernels import CudaBlock
from compiler.launch.cuda.repeats import Repeats
from runtime.cuda.gpu import gpu as gpu_of
from runtime.cuda.remote import upload
from runtime.tensor import Filled, Tensor
from zynml.stdlib import on_devices
from zynml.stdlib.creation import MADE_LATER

PROGRAM = """
struct Scale { by: f32 }
struct Other { by: f32 }

impl Scale {
    def applied(self, x: tensor[N, C], y: tensor[N, C]): tensor[N, C] {
        let by = self.by
        compute(x, y, by) { for i in 0..N, j in 0..C: out[i, j] = x[i, j] * by + y[i, j] }
    }
}
def applied(scale: Scale, x: tensor[N, C], y: tensor[N, C]): tensor[N, C] { scale.applied(x, y) }
def scale(by: f32): Scale { Scale { by: by } }
def other(by: f32): Other { Other { by: by } }
fn untyped(scale, x) { applied(scale, x, x) }
def repeated(x: tensor[N, C], y: tensor[N, C], turns: int): tensor {
    let scale = Scale { by: 2.0 as f32 }
    mut z = y
    for turn in 0..turns { z = scale.applied(x, z) }
    z
}
def flattened(x: tensor[N, C], turns: int): tensor {
    mut total = zeros(N * C)
    for turn in 0..turns {
        let flat = x.reshape([N * C])
        total = compute(flat, total) { for i in 0..K: out[i] = flat[i] + total[i] }
    }
    total
}
def in_chains(x: tensor[N, C], turns: int): tensor {
    mut y = x
    for turn in 0..turns {
        let z = compute(y) { for i in 0..N, j in 0..C: out[i, j] = y[i, j] + 1.0 }
        y = compute(z, x) { for i in 0..N, j in 0..C: out[i, j] = 2.0 * z[i, j] - x[i, j] }
    }
    y
}
"""


@pytest.fixture(autouse=True, params=["Python", "machine code"])
def soon(request, monkeypatch):
    """Whether machine code launches as soon as a call comes again, or Python does."""
    monkeypatch.setattr(repeats, "COMES_AGAIN_FROM_HOST", 1 if request.param == "machine code" else 0)
    return request.param == "machine code"


def counted(monkeypatch, owner, name):
    """The classes of the arguments of each call of a function from now on: the arguments themselves would hold memory."""
    calls, function = [], getattr(owner, name)

    def counting(*arguments):
        calls.append(tuple(map(type, arguments)))
        return function(*arguments)

    monkeypatch.setattr(owner, name, counting)
    return calls


def there(array):
    return Tensor(None, upload(np.ascontiguousarray(array), gpu_of(0), True))


def random(*shape):
    return np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32)


def test_sizes_are_bound_once_for_methods_too(fake, monkeypatch):
    calls = counted(monkeypatch, support, "bind_sizes")
    program = zynml.compile(PROGRAM, device="cuda:0")
    x, y = random(3, 5), random(5, 3).T
    for turns in (1, 9):
        np.testing.assert_array_equal(np.asarray(program.repeated(there(x), there(y), turns)), turns * 2 * x + y)
    before = len(calls)
    np.testing.assert_array_equal(np.asarray(program.repeated(there(x), there(y), 9)), 18 * x + y)
    assert len(calls) == before
    wide = random(4, 5)
    for _ in range(2):
        with pytest.raises(zynml.ZynMLError, match="ZYN0802"):
            program.applied({"by": 2.0}, there(x), there(wide))
    np.testing.assert_array_equal(np.asarray(program.repeated(there(wide), there(wide), 1)), 3 * wide)


def test_another_struct_is_refused_however_often_the_right_one_came(fake):
    program = zynml.compile(PROGRAM, device="cuda:0")
    x = random(2, 3)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(program.untyped(program.scale(0.5), there(x))), 1.5 * x)
        with pytest.raises(zynml.ZynMLError, match="ZYN0807"):
            program.untyped(program.other(0.5), there(x))


MODELS = """
struct Part { w: tensor[N, M], b: tensor[M] }
struct Model { parts: List<Part>, depth: int }
def model(a: tensor[N, M], b: tensor[M], depth: int): Model { Model { parts: [Part { w: a, b: b } for _ in 0..depth], depth: depth } }
def applied(model: Model, x: tensor[K, N]): tensor {
    mut y = x
    for part in model.parts {
        let w = part.w
        y = compute(y, w) { for i in 0..K, j in 0..M { var s = 0.0f32; for k in 0..N { s += y[i, k] * w[k, j] }; out[i, j] = s } }
    }
    model.parts.push(model.parts[0])
    y
}
"""


def test_models_that_passed_are_looked_at_quickly(gpu, monkeypatch):
    """A list is the function's own each time; what is laid out otherwise, or lies elsewhere, is looked at as at first."""
    from compiler.backends.host.record_arguments import RecordArguments

    program = zynml.compile(MODELS, device="cuda:0")
    random = np.random.default_rng(4)
    looked = counted(monkeypatch, RecordArguments, "taken")
    for size in (3, 4):
        w, b = (random.integers(-2, 3, shape).astype(np.float32) for shape in ((size, size), (size,)))
        model = program.model(there(w), there(b), 2)
        for turn in range(4):
            x = random.integers(-2, 3, (5, size)).astype(np.float32)
            before = len(looked)
            np.testing.assert_array_equal(np.asarray(program.applied(model, there(x))), x @ w @ w)
            assert (len(looked) > before) == (turn == 0)
            assert len(model.parts) == 2
    part = model.parts[0]
    for wrong in (type(part)((part.w, part.w)), type(part)((part.b, part.b)), 5):
        for _ in range(2):
            with pytest.raises(zynml.ZynMLError, match="ZYN0807"):
                program.applied(type(model)(([wrong], 1)), there(x))
    part.w.array[0, 0] += 1  # on the host from now on
    want = x @ np.asarray(part.w) @ np.asarray(part.w)
    np.testing.assert_array_equal(np.asarray(program.applied(model, there(x))), want)


def test_results_that_passed_are_not_converted_again(fake, monkeypatch):
    calls = counted(monkeypatch, conversions, "convert")
    program = zynml.compile(PROGRAM, device="cuda:0")
    x = random(2, 3)
    program.repeated(there(x), there(x), 3)
    before = len(calls)
    program.repeated(there(x), there(x), 9)
    assert not any(Tensor in classes for classes in calls[before:])
    program.repeated(there(random(3, 2)), there(random(3, 2)), 1)  # another shape is looked at
    assert any(Tensor in classes for classes in calls[before:])


def test_views_are_taken_by_machine_code(fake, monkeypatch, soon):
    program = zynml.compile(PROGRAM, device="cuda:0")
    x = random(3, 5)
    np.testing.assert_array_equal(np.asarray(program.flattened(there(x), 9)), 9 * x.ravel())
    calls = counted(monkeypatch, Repeats, "again")
    np.testing.assert_array_equal(np.asarray(program.flattened(there(x), 9)), 9 * x.ravel())
    assert len(calls) == (0 if soon else 9)


def test_a_chain_is_planned_once_for_a_layout(fake, monkeypatch):
    program = zynml.compile(PROGRAM, device="cuda:0")
    calls = counted(monkeypatch, Chains, "run_of")

    def expected(x, turns):
        y = x
        for _ in range(turns):
            y = 2 * (y + 1) - x
        return y

    for x in (random(3, 5), random(5, 3).T, random(1, 4)):
        for turns in (1, 3):
            np.testing.assert_array_equal(np.asarray(program.in_chains(there(x), turns)), expected(x, turns))
        before = len(calls)
        np.testing.assert_array_equal(np.asarray(program.in_chains(there(x), 5)), expected(x, 5))
        assert len(calls) == before


LIBRARY = """
struct Pair { first: tensor, second: tensor }

def halved(x: tensor): tensor { (x as tensor[?, ?, bf16]) as tensor[?, ?, f32] }
def sums(x: tensor, y: tensor, by: f32): tensor { (x * by + y) / 2.0 }
def added(mut x: tensor[N, C], turns: int): tensor[N, C] {
    for turn in 0..turns {
        var flat = x.reshape([N * C])
        compute(mut flat) { for i in 0..K: flat[i] = flat[i] + 1.0 }
    }
    x
}
def from_zeros(x: tensor[N]): tensor[N] {
    let none = zeros(N)
    compute(x, none) { for i in 0..N: out[i] = x[i] + none[i] }
}
def of_ones(x: tensor[N]): tensor[N] {
    var one = ones(N)
    compute(mut one, x) { for i in 0..N: one[i] = one[i] + x[i] }
    one
}
def looked_at(count: int): f64 {
    var none = full(count, -0.0)
    let before = none[count - 1] as f64
    none[1] = 3.0
    let after = none.sum() as f64
    1.0 / before + after
}
def second(pair: Pair): tensor { pair.second }
def seconds(pairs: List<Pair>): tensor { pairs[1].second }
"""


def test_operations_of_the_library_are_planned_once(fake, monkeypatch):
    program = zynml.compile(LIBRARY, device="cuda:0")
    calls = counted(monkeypatch, on_devices, "planned_there")
    a, b = random(3, 5), random(5, 3)
    views = {"all": (a, as_it_is), "turned": (b, np.transpose), "backward": (a, lambda x: x[::-1]), "a row": (a, lambda x: x[:1])}
    views |= {"a column": (a, lambda x: x[:, :1]), "nothing": (a, lambda x: x[:0])}
    pairs = ("all", "all"), ("all", "turned"), ("backward", "all"), ("all", "a row"), ("a column", "turned"), ("nothing", "nothing")
    for _ in range(2):
        before = len(calls)
        for left, right in pairs:
            (x, of_x), (y, of_y) = views[left], views[right]
            for by in (0.5, -1.0):
                made = program.sums(there(x).viewed(of_x), there(y).viewed(of_y), by)
                np.testing.assert_array_equal(np.asarray(made), (of_x(x) * np.float32(by) + of_y(y)) / 2)
    assert len(calls) - before <= 6  # those without elements
    for x, of_x in views.values():
        np.testing.assert_array_equal(np.asarray(program.halved(there(x).viewed(of_x))), of_x(x))


def as_it_is(x):
    return x


def test_reshaped_views_share_memory_with_what_they_view(fake):
    program = zynml.compile(LIBRARY, device="cuda:0")
    x = random(3, 5)
    given = there(x)
    np.testing.assert_array_equal(np.asarray(program.added(given, 5)), x + 5)
    np.testing.assert_array_equal(np.asarray(given), x + 5)
    with pytest.raises(ValueError, match="copy"):
        given.viewed(lambda array: array.T).viewed_as((15,))


def test_tensors_in_structs_from_python_are_looked_at_once_for_a_layout(fake):
    program = zynml.compile(LIBRARY.replace("second: tensor }", "second: tensor[N, C, f32] }"), device="cuda:0")
    x = there(random(3, 5))
    for _ in range(3):
        assert program.second({"first": x, "second": x}) is not None
        for wrong in (there(random(3)), there(random(3, 5).astype(np.float64))):
            with pytest.raises(zynml.ZynMLError, match=r"`pair\.second` of `second`"):
                program.second({"first": x, "second": wrong})
            with pytest.raises(zynml.ZynMLError, match=r"`pairs\[1\]\.second` of `seconds`"):
                program.seconds([(x, x), (x, wrong)])


def test_large_tensors_of_one_number_are_made_on_the_device_alone(fake, monkeypatch):
    program = zynml.compile(LIBRARY, device="cuda:0")
    made = counted(monkeypatch, Filled, "made")
    for count in (3, MADE_LATER // 4, MADE_LATER // 4 + 1):
        x = random(count)
        before, moved = len(made), fake.calls["cuMemcpyHtoDAsync"]
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(program.from_zeros(there(x))), x)
            np.testing.assert_array_equal(np.asarray(program.of_ones(there(x))), x + 1)
        assert len(made) - before == (6 if count == 3 else 0)
        assert fake.calls["cuMemcpyHtoDAsync"] - moved == 6  # of x
    for count in (3, MADE_LATER // 4):
        assert program.looked_at(count) == -np.inf


def test_arrays_on_the_host_that_are_read_go_there_and_come_back_as_others_do(fake, monkeypatch):
    program = zynml.compile(PROGRAM, device="cuda:0")
    launched = counted(monkeypatch, CudaBlock, "_launched")
    x, y = random(3, 5), random(3, 5)
    for _ in range(4):
        y += 1  # of the caller, who may change it
        np.testing.assert_array_equal(np.asarray(program.applied({"by": 2.0}, x, y)), 2 * x + y)
        np.testing.assert_array_equal(np.asarray(program.applied({"by": 2.0}, x[::-1], y[:, ::-1])), 2 * x[::-1] + y[:, ::-1])
    assert len(launched) == 5  # those that lie backward are looked at anew
    fake.fail_next["cuMemcpyHtoDAsync"] = OUT_OF_MEMORY
    with pytest.raises(zynml.ZynMLError, match="ZYN0805"):
        program.applied({"by": 2.0}, x, y)
    np.testing.assert_array_equal(np.asarray(program.applied({"by": 2.0}, x, y)), 2 * x + y)


SHARED = """
def added(mut flat: tensor[K], by: f32) { compute(mut flat, by) { for i in 0..K: flat[i] = flat[i] + by } }
def both(mut a: tensor[K], b: tensor[K]) { compute(mut a, b) { for i in 0..K: a[i] = a[i] + b[i] } }
def parts(rows: int, columns: int, turns: int, before: int, after: int) {
    var all = full([rows, columns], 0.5)
    var flat = all.reshape([rows * columns])
    var seen = 0.0
    if before == 1 { seen = all[rows - 1, 0] as f64 }
    if before == 2 { all[0, 0] = 3.0 }
    for turn in 0..turns { added(flat, 1.0 as f32) }
    if after == 1 { seen = all[rows - 1, 0] as f64 }
    if after == 2 { flat[1] = 7.0 }
    for turn in 0..turns {
        var again = all.reshape([columns, rows]).reshape([rows * columns])
        added(again, 1.0 as f32)
    }
    (all, flat, seen)
}
def twice(count: int) {
    var all = zeros(count)
    var same = all.reshape([count])
    both(all, same)
}
def narrow(rows: int, columns: int): tensor {
    var all = full([rows, columns], 1.00390625) as tensor[?, ?, bf16]
    var flat = all.reshape([rows * columns])
    compute(mut flat) { for i in 0..K: flat[i] = flat[i] * (2.0 as bf16) }
    all
}
"""


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
def test_views_of_tensors_of_one_number_are_updated_on_the_device(fake, before, after):
    program = zynml.compile(SHARED, device="cuda:0")
    for rows, columns in ((2, 3), (3, MADE_LATER // 8)):
        expected, seen = np.full((rows, columns), 0.5, np.float32), 0.0
        if before == 1:
            seen = 0.5
        if before == 2:
            expected[0, 0] = 3
        expected += 4
        if after == 1:
            seen = 4.5
        if after == 2:
            expected[0, 1] = 7
        expected += 4
        all, flat, looked = program.parts(rows, columns, 4, before, after)
        np.testing.assert_array_equal(np.asarray(all), expected)
        np.testing.assert_array_equal(np.asarray(flat), expected.ravel())
        assert looked == seen


def test_they_are_never_made_on_the_host(fake, monkeypatch, soon):
    program = zynml.compile(SHARED, device="cuda:0")
    made, again, down = counted(monkeypatch, Filled, "made"), counted(monkeypatch, Repeats, "again"), fake.calls["cuMemcpyDtoHAsync"]
    program.parts(3, MADE_LATER // 8, 9, 0, 0)
    assert not made
    assert fake.calls["cuMemcpyDtoHAsync"] == down + 1  # all that Python gets
    assert len(again) == (3 if soon else 18)  # of the number, of elements on the device, and once more until machine code is made


def test_casts_of_large_tensors_of_one_number_and_what_shares_their_memory(fake):
    program = zynml.compile(SHARED, device="cuda:0")
    for rows, columns in ((2, 3), (3, MADE_LATER // 8)):
        assert (np.asarray(program.narrow(rows, columns)).astype(np.float64) == 2).all()  # 1 + 2^-8 is rounded to even
    for count in (3, MADE_LATER):
        with pytest.raises(zynml.ZynMLError, match="ZYN0813"):
            program.twice(count)
