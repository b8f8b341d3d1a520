"""`load`, `save`, `model` and `import image(...)`: which file is meant, what it holds, and as which type the program wants it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ANY_TENSOR,
    STRING,
    UNIT,
    UNKNOWN,
    DictType,
    DType,
    ListType,
    Scalar,
    StructType,
    TensorType,
    Type,
)
from runtime.tensor import Array, Tensor
from runtime.values import NONE, ElementSet, RecordValue, StructValue
from zynml.stdlib import csv_files, utf8
from zynml.stdlib.casts import cast_array
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import array_dtype, given_dtype, require_dtype, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.images import load_image, save_image
from zynml.stdlib.paths import FORMATS, ending, file_faults, replaced_whole
from zynml.stdlib.printing import quoted
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import tensor_type

family = FunctionFamily()

TABLES, PICTURES, ARCHIVES = ("csv", "tsv"), ("png", "jpg", "jpeg"), ("npz", "safetensors")
CSV_OPTIONS = ("header", "columns", "delimiter")


def existing(settings: StdlibSettings, path: str) -> Path:
    """The file that a program means. Raises OSError where it is a folder."""
    file = settings.find_file(path)
    if file.is_dir():
        raise IsADirectoryError
    return file


# ---- loading ---------------------------------------------------------------------------------------------------------


def _load_rule(calls: CallTypes) -> Type:
    path = calls.constants.get("path")
    kind = Path(path).suffix[1:].lower() if isinstance(path, str) else ""
    if kind in ("", "json"):
        return UNKNOWN
    if kind == "txt":
        return STRING
    if kind == "safetensors" and "key" not in calls.types:
        return DictType(STRING, ANY_TENSOR)
    default = DType.F32 if kind in TABLES else DType.U8 if kind in ("jpg", "jpeg") else None
    return tensor_type(given_dtype(calls, default), (None, None) if kind in TABLES else None)


@family.function("load", result=_load_rule, uses_settings=True, keywords=("dtype", *CSV_OPTIONS, "target"), key="String")
def load(
    settings: StdlibSettings,
    path: Any,
    key: Any = None,
    dtype: Any = None,
    header: Any = None,
    columns: Any = None,
    delimiter: Any = None,
    target: Any = None,
) -> Any:
    """What a file holds: the tensor in npy, npz (with a key), csv (numbers; f32 unless `dtype` says otherwise), png and jpg (u8); the
    tensors of safetensors by name; maps, lists, numbers and text of json; the text in txt. `load(path) as T` makes it a T: json anything,
    npz and safetensors a map or a struct of tensors, csv a list of structs by the header, of tuples or lists, or a map of columns."""
    kind = ending(path)
    wanted = None if dtype is None else require_dtype(dtype)
    given = {name: value for name, value in zip(CSV_OPTIONS, (header, columns, delimiter), strict=True) if value is not None}
    if given and kind not in TABLES:
        raise LibraryFault("0204", f"`{next(iter(given))}=` is for csv files, and `{path}` is {kind}")
    if key is not None and kind not in ARCHIVES:
        raise LibraryFault("0204", f"a key is for npz and safetensors files, and `{path}` is {kind}")
    if wanted is not None and kind in ("json", "txt"):
        hint = "`load(path) as tensor[N, f32]` makes a tensor of its numbers" if kind == "json" else None
        raise LibraryFault("0204", f"`dtype=` is for files of numbers, and `{path}` is {kind}", hint)
    with file_faults(path):
        file = existing(settings, path)
        if kind == "json":
            from zynml.stdlib.json_files import load_json

            return load_json(file, target)
        if kind == "txt":
            return utf8.read(file) if target is None else target.fitted(utf8.read(file))
        if kind in TABLES:
            return _table(file, kind, given, wanted, target)
        if kind in ARCHIVES:
            return _archived(file, kind, key, wanted, target)
        array = load_image(file) if kind in PICTURES else _npy(file)
        return _as_target(_tensor(array, wanted), target)


def _npy(file: Path) -> Array:
    from zynml.stdlib.numpy_files import load_npy

    return load_npy(file)


def _tensor(array: Array, wanted: DType | None) -> Tensor:
    return Tensor(array if wanted is None else cast_array(array, array_dtype(array), wanted))


def _as_target(tensor: Tensor, target: Any) -> Any:
    """A tensor as what is no tensor, such as a list; tensors and numbers are converted as any value before `as` is."""
    return tensor if target is None or isinstance(target.type, TensorType | Scalar) else target.fitted(tensor)


def _table(file: Path, kind: str, given: dict[str, Any], wanted: DType | None, target: Any) -> Any:
    from zynml.stdlib import csv_rows

    delimiter = csv_files.require_delimiter(given.pop("delimiter", "\t" if kind == "tsv" else ","))
    if target is not None and csv_rows.is_table(target.type):
        extra = "dtype" if wanted is not None else "columns" if "columns" in given else None
        if extra is not None:
            raise LibraryFault("0204", f"`{extra}=` is for tables as tensors, and {target.type} says what the columns are")
        return csv_rows.load_table(file, target, delimiter, csv_files.require_header(given.get("header")))
    if wanted is None and target is not None and isinstance(target.type, TensorType) and isinstance(target.type.element, Scalar):
        wanted = target.type.element.dtype
    return _as_target(Tensor(csv_files.read(file, delimiter, wanted or DType.F32, **given)), target)


def _archived(file: Path, kind: str, key: Any, wanted: DType | None, target: Any) -> Any:
    """One array where a key names it or a tensor is wanted, else all of them."""
    from zynml.stdlib.numpy_files import load_npz, only_of, the_only_name

    read: Callable[[Path, str | None], dict[str, Array]] = load_npz
    if kind != "npz":
        from zynml.stdlib.safetensors_files import load_safetensors as read
    as_tensor = target is not None and isinstance(target.type, TensorType | Scalar | ListType)
    if key is None and kind == "npz" and (target is None or as_tensor):
        key = the_only_name(file)
    found = {name: _tensor(array, wanted) for name, array in read(file, key).items()}
    if key is None and as_tensor:
        key = only_of(list(found), "tensors")
    if key is not None:
        return _as_target(found[key], target)
    if target is None:
        return found
    return target.fitted(_nested(found) if isinstance(target.type, StructType) else found)


def _nested(tensors: dict[str, Tensor]) -> Any:
    """Tensors with points in their names as maps in each other, and as lists where the parts are numbered from 0."""
    tree: dict[str, Any] = {}
    for name, tensor in tensors.items():
        *folders, last = name.split(".")
        inside = tree
        for folder in folders:
            further = inside.setdefault(folder, {})
            if not isinstance(further, dict):
                raise LibraryFault("0807", f"`{name}` lies in another tensor")
            inside = further
        if last in inside:
            raise LibraryFault("0807", f"other tensors lie in `{name}`")
        inside[last] = tensor
    return _listed(tree)


def _listed(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    parts = {name: _listed(part) for name, part in tree.items()}
    numbers = [str(place) for place in range(len(parts))]
    return [parts[number] for number in numbers] if parts and set(parts) == set(numbers) else parts


# ---- models ----------------------------------------------------------------------------------------------------------

MODEL_FORMATS = ("safetensors", "npz")


MODEL = DictType(STRING, ANY_TENSOR)


@family.function("model", result=MODEL, uses_settings=True, keywords=("dtype", "device", "prefix"), prefix="String")
def model(settings: StdlibSettings, path: Any, dtype: Any = None, device: Any = None, prefix: Any = "") -> dict[str, Tensor]:
    """The tensors of a safetensors or npz file as a map, whose parts are also found by their paths: `m.layer.weight` is
    `m["layer.weight"]`. `model(path) { dtype: "f32" }` converts them, `device` says where they go, and `prefix` leaves out those whose
    names don't begin so, and the prefix itself."""
    from zynml.stdlib.numpy_files import load_npz
    from zynml.stdlib.safetensors_files import load_safetensors

    kind = ending(path, MODEL_FORMATS)
    wanted = None if dtype is None else require_dtype(dtype)
    if not isinstance(prefix, str):
        raise LibraryFault("0203", f"a prefix is a String, not {type_name(prefix)}")
    with file_faults(path):
        file = existing(settings, path)
        arrays = load_npz(file) if kind == "npz" else load_safetensors(file)
        found = {name.removeprefix(prefix): _tensor(array, wanted) for name, array in arrays.items() if name.startswith(prefix)}
        if not found and arrays:
            raise LibraryFault("0807", f"no tensor's name begins with {quoted(prefix)}", did_you_mean(prefix, arrays))
    if device is not None:
        from zynml.stdlib.devices import to_device

        found = {name: to_device(tensor, device) for name, tensor in found.items()}
    return found


# ---- import values ---------------------------------------------------------------------------------------------------

IMPORTERS = ("image",)


def _import_rule(calls: CallTypes) -> Type:
    kind = calls.constants.get("kind")
    if kind not in IMPORTERS:
        hint = "`load(path) as T` reads " + ", ".join(FORMATS)
        raise TypeFault("0202", f"there is no `import {kind}(...)`", "kind", "not found", hint)
    return tensor_type(DType.U8, None)


@family.function("import value", result=_import_rule, uses_settings=True, keywords=("target",))
def import_value(settings: StdlibSettings, kind: str, path: Any, target: Any = None) -> Any:
    """`import image("a.png")`: the pixels of a picture."""
    ending(path, PICTURES)
    with file_faults(path):
        return _as_target(Tensor(load_image(existing(settings, path))), target)


# ---- saving ----------------------------------------------------------------------------------------------------------


def _arrays(value: Any, prefix: str = "") -> dict[str, Array]:
    """Tensors by name: of a map, of a list of pairs, or of a struct, whose structs' names come before a point; one alone is `data`."""
    if isinstance(value, StructValue):
        entries = list(zip(value.__record__.parts, value, strict=True))
    elif isinstance(value, dict) and not isinstance(value, ElementSet):
        entries = list(value.items())
    elif isinstance(value, list) and value and all(map(_is_pair, value)):
        entries = value
    elif prefix and isinstance(value, list) and any(isinstance(part, StructValue | dict) for part in value):
        entries = [(str(place), part) for place, part in enumerate(value)]
    else:
        return {prefix.removesuffix(".") or "data": to_tensor(value).contents}
    arrays: dict[str, Array] = {}
    for name, part in entries:
        if not isinstance(name, str):
            raise LibraryFault("0203", f"the name of a tensor is a String, not {type_name(name)}")
        if isinstance(part, RecordValue) and part.__record__.enum == "Option":
            if part == NONE:
                continue
            part = part[0]
        for inside, array in _arrays(part, f"{prefix}{name}.").items():
            if inside in arrays:
                raise LibraryFault("0807", f"two arrays have the same key {quoted(inside)}")
            arrays[inside] = array
    return arrays


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


@family.function("save", result=UNIT, keywords=("header",), header="list of String")
def save(path: Any, value: Any, header: Any = None) -> None:
    """Writes a file whose format the path's ending names: a tensor as npy, csv, png or jpg; tensors by name (a map, a struct, a list of
    pairs) as npz or safetensors; a list of structs, tuples or lists, or a map of columns, as csv; text as txt; anything as json. Makes
    folders as needed; the file appears when it is whole."""
    kind = ending(path)
    if header is not None and kind not in TABLES:
        raise LibraryFault("0204", f"`header=` is for csv files, and `{path}` is {kind}")
    with file_faults(path), replaced_whole(Path(path)) as file:
        if kind == "json":
            from zynml.stdlib.json_files import json_text

            utf8.write(file, json_text(value))
        elif kind == "txt":
            utf8.write(file, value)
        elif kind in TABLES:
            _save_table(file, value, "\t" if kind == "tsv" else ",", header)
        elif kind in PICTURES:
            save_image(file, to_tensor(value).contents, "PNG" if kind == "png" else "JPEG")
        elif kind == "safetensors":
            from zynml.stdlib.safetensors_files import save_safetensors

            save_safetensors(file, _arrays(value))
        elif kind == "npz":
            from zynml.stdlib.numpy_files import save_npz

            save_npz(file, _arrays(value))
        else:
            from zynml.stdlib.numpy_files import save_npy

            save_npy(file, to_tensor(value).contents)


def _save_table(file: Path, value: Any, delimiter: str, header: Any) -> None:
    from zynml.stdlib import csv_rows

    rows = csv_rows.table_of(value, header)
    if rows is None:
        csv_files.write(file, to_tensor(value).contents, delimiter, header)
    elif header is not None and (not isinstance(header, list) or len(header) != len(rows[-1])):
        raise LibraryFault("0203", f"the header has a name for each of the {len(rows[-1])} columns")
    else:
        csv_rows.write_table(file, rows, delimiter)

