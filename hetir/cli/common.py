"""What the commands share: finding a kernel, reading arguments and sizes, printing tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import typer

from hetir import hetbin, library
from hetir.decorator import Kernel
from hetir.diagnostics import HetirError, Label
from hetir.ir.types import SCALARS
from hetir.source import whole_line

Launchable = Kernel | hetbin.BuiltKernel


class UsageError(HetirError):
    """The command line names a file, kernel or value that cannot be used.

    Cause: a misspelt path, kernel name or `NAME=VALUE`. Fix: as the help line says.
    """

    code = "HET700"


def find_kernel(spec: str) -> Kernel:
    """The kernel that `FILE.py:KERNEL`, or `FILE.py` with a single kernel, names.

    A FILE that is not there is looked up in the installed library (`kernels/...`).
    """
    path, name = split_spec(spec)
    kernels = kernels_in(path)
    if name:
        if name not in kernels:
            raise UsageError(
                f"{path} has no kernel `{name}`", hint=f"it has {_listed(kernels) or 'none'}"
            )
        return kernels[name]
    if not kernels:
        raise UsageError(f"{path} has no kernels", hint="put `@hetir.kernel` above a function")
    if len(kernels) != 1:
        raise UsageError(
            f"{path} has {len(kernels)} kernels",
            hint=f"name one: {path}:{next(iter(kernels))}",
        )
    return next(iter(kernels.values()))


def find_launchable(spec: str) -> Launchable:
    """The kernel that `FILE.py:KERNEL` or `FILE.hetbin:KERNEL` names."""
    path, name = split_spec(spec)
    if Path(path).suffix != ".hetbin":
        return find_kernel(spec)
    found = hetbin.load(path)
    if not name and len(found) != 1:
        raise UsageError(
            f"{path} has {len(found)} kernels",
            hint=f"name one: {path}:{next(iter(found), 'KERNEL')}",
        )
    return found[name or next(iter(found))]


def split_spec(spec: str) -> tuple[str, str]:
    """`FILE:KERNEL` as its two parts; the kernel may be left out."""
    path, colon, name = spec.rpartition(":")
    return (path, name) if colon and name.isidentifier() else (spec, "")


def kernels_in(path: str) -> Mapping[str, Kernel]:
    """The kernels that a Python file defines, by name."""
    file = Path(path)
    if not file.exists() and file.parts[:1] == ("kernels",):
        file = library.folder().joinpath(*file.parts[1:])
    if not file.is_file():
        raise UsageError(
            f"there is no file {path}", hint="give the path of a Python file with kernels"
        )
    if file.suffix != ".py":
        raise UsageError(f"{path} is no Python file", hint="give a file that ends in .py")
    try:
        module = library.load(file)
    except HetirError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the user's file raises
        raise _broken(path, file, error) from None
    return {k: v for k, v in vars(module).items() if isinstance(v, Kernel)}


def _broken(path: str, file: Path, error: Exception) -> UsageError:
    """What a user's file raised while it was loaded, at the last of its lines that was running."""
    name, text = str(file.resolve()), str(error)
    lines = [at.lineno for at in extract_tb(error.__traceback__) if at.filename == name]
    if isinstance(error, SyntaxError):
        lines, text = [error.lineno], error.msg
    labels = (Label(whole_line(name, lines[-1]), ""),) if lines and lines[-1] else ()
    return UsageError(
        f"{path} does not load: {type(error).__name__}: {text}",
        *labels,
        hint=f"`python {path}` shows the whole traceback",
    )


def parse_dims(text: str, what: str) -> tuple[int, ...]:
    """`256`, `16,16` or `8x8x4` as one to three sizes."""
    try:
        dims = tuple(int(part) for part in re.split("[,x]", text))
    except ValueError:
        dims = ()
    if not 1 <= len(dims) <= 3 or min(dims) < 0:
        raise UsageError(f"{what} `{text}` is not one to three sizes", hint=f"write {what} 16,16")
    return dims


def parse_arguments(
    kernel: Launchable, pairs: Sequence[str], outputs: Iterable[str]
) -> dict[str, Any]:
    """`NAME=VALUE` pairs as the kernel's arguments by name.

    VALUE is a number, `true`/`false`, a .npy file, `f32[4096,1024]` for zeros, or numbers with
    commas between for a vector. An array named in `outputs` and not given takes the shape of the
    first array given that has its rank.
    """
    given: dict[str, Any] = {}
    for name, value in (_pair(kernel, text) for text in pairs):
        if name in given:
            raise UsageError(f"`{name}` is given twice", hint=f"leave one {name}=VALUE out")
        given[name] = value
    arrays: list[Any] = [v for v in given.values() if isinstance(v, np.ndarray)]
    for name in outputs:
        if name not in given and name in kernel.parameters and not kernel.is_scalar(name):
            given[name] = _like(kernel, name, arrays)
    missing = [n for n in kernel.parameters if n not in given]
    if missing:
        raise UsageError(
            f"`{kernel.name}` needs a value for {', '.join(f'`{n}`' for n in missing)}",
            hint=f"add {missing[0]}=VALUE, {missing[0]}=file.npy or {missing[0]}=f32[1024]",
        )
    return {name: given[name] for name in kernel.parameters}


def _pair(kernel: Launchable, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"`{text}` is not NAME=VALUE", hint="write x=x.npy or n=3")
    if name not in kernel.parameters:
        raise UsageError(
            f"`{kernel.name}` has no parameter `{name}`",
            hint=f"it has {_listed(kernel.parameters)}",
        )
    return name, parse_value(value)


def parse_value(text: str) -> Any:
    """One VALUE of `parse_arguments`."""
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"cannot read {text}: {error}", hint="give a .npy file of numbers"
            ) from None
    if match := re.fullmatch(r"(\w+)\[([\d,x ]*)\]", text):
        if match[1] not in SCALARS:
            raise UsageError(f"there is no type `{match[1]}`", hint=f"types are {_listed(SCALARS)}")
        shape = tuple(int(n) for n in re.split("[,x]", match[2]) if n.strip())
        try:
            return np.zeros(shape, SCALARS[match[1]].numpy)
        except (MemoryError, ValueError):
            raise UsageError(f"no memory for `{text}`", hint="give a smaller size") from None
    if "," in text:
        return tuple(map(parse_value, text.split(",")))
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise UsageError(
        f"`{text}` is not a value", hint="write a number, file.npy, or f32[4096,1024] for zeros"
    )


def parse_save(text: str) -> tuple[str, str]:
    """`NAME=file.npy` of `--out` as its two parts."""
    name, equals, path = text.partition("=")
    if not equals or not path.endswith(".npy"):
        raise UsageError(f"--out `{text}` is not NAME=file.npy", hint="write --out y=y.npy")
    folder = Path(path).parent
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder} for --out {text}", hint=f"mkdir -p {folder}")
    return name, path


def save_arrays(saves: Mapping[str, str], arguments: Mapping[str, Any]) -> None:
    """Write what `--out` names, and say so."""
    for name, path in saves.items():
        try:
            np.save(path, arguments[name])
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    for name, path in saves.items():
        typer.echo(f"  {name} -> {path} {arguments[name].dtype}{list(arguments[name].shape)}")


def _like(kernel: Launchable, name: str, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    """Zeros for an output that was not given."""
    declared = kernel.declared_array(name)
    for array in arrays:
        if declared is None or declared.ndim == array.ndim:
            dtype = array.dtype if declared is None else declared.element.numpy
            return np.zeros(array.shape, dtype)
    raise UsageError(
        f"the shape of `{name}` cannot be told from the other arguments",
        hint=f"add {name}=f32[SIZE] with its type and shape",
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)
