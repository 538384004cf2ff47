"""One line for users: their kernel, their NumPy reference, random arguments, every device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hetir import compiler
from hetir.decorator import Extents, Kernel
from hetir.passes.layout import layout_of
from hetir.testing.differential import differences, duplicate

_Array = np.ndarray[Any, Any]


def check_kernel(  # noqa: PLR0913 - what a launch and a comparison need
    kernel: Kernel,
    reference: Callable[..., Any],
    strategy: st.SearchStrategy[Sequence[Any]],
    *,
    grid: Extents | Callable[..., Extents] | None = None,
    workgroup: Extents | None = None,
    devices: Sequence[str] = ("cpu",),
    examples: int = 50,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Check a kernel on random arguments, against a reference and on the evaluator.

    For each example: the evaluator runs it with every check on (bounds, races, uninitialised
    reads, divergent barriers); the arrays that it leaves are compared with the reference's; and
    every device must leave the evaluator's bits. A failing example is shrunk and printed.

    Args:
        kernel: a `@hetir.kernel` function.
        reference: takes copies of the arguments. It writes its results into them, or returns
            the arrays that the kernel writes: one, a tuple in the order of the parameters, or a
            mapping by name.
        strategy: gives the arguments, a tuple in the order of the parameters: see `arrays`.
        grid: workgroups, or a function of the arguments; the kernel's usual ones if left out.
        workgroup: work-items a workgroup; the kernel's usual one if left out.
        devices: names of devices that must agree with the evaluator.
        examples: how many to try.
        rtol: of floats against the reference; integers must be equal.
        atol: of floats against the reference.

    Raises:
        AssertionError: a fault that the evaluator found, or where results differ.
    """

    @settings(max_examples=examples, deadline=None, print_blob=False)
    @given(strategy)
    def example(arguments: Sequence[Any]) -> None:
        named = dict(zip(kernel.parameters, arguments, strict=True))
        groups = grid(*arguments) if callable(grid) else grid
        shape = kernel.launch_shape(named, groups, workgroup)
        found = _evaluated(kernel, arguments, shape)
        wanted = _expected(kernel, reference, arguments, found)
        for name, want in wanted.items():
            _close(name, found[name], want, rtol, atol)
        for device in devices:
            copies = [duplicate(a) for a in arguments]
            launch = kernel.launch(copies, grid=shape[0], workgroup=shape[1], device=device)
            launch.wait()
            got = dict(zip(kernel.parameters, copies, strict=True))
            for name, want in found.items():
                wrong = differences([want], [got[name]])
                assert not wrong, f"`{name}` on {device} is not what the evaluator has: {wrong[0]}"

    example()


def arrays(
    dtype: Any, shape: int | tuple[int, ...] | st.SearchStrategy[Any], **options: Any
) -> st.SearchStrategy[_Array]:
    """Arrays for a kernel's arguments.

    Floats are finite and of moderate size unless `elements` says otherwise.

    Args:
        dtype: a hetIR type such as `hl.f32`, or a NumPy one.
        shape: extents, or a strategy for them.
        options: those of hypothesis.extra.numpy.arrays.
    """
    kind = np.dtype(getattr(dtype, "numpy", dtype))
    if kind.kind == "f" and "elements" not in options:
        options["elements"] = st.floats(-1e3, 1e3, width=min(64, 8 * kind.itemsize))  # pyright: ignore[reportArgumentType]
    made: Any = hnp.arrays(kind, shape, **options)
    return made


def _evaluated(
    kernel: Kernel, arguments: Sequence[Any], shape: tuple[Any, Any]
) -> dict[str, _Array]:
    """The arrays that the evaluator leaves; AssertionError for a fault."""
    report = compiler.check(kernel, [duplicate(a) for a in arguments], *shape)
    assert not report.faults, f"{report.faults[0]}"
    copies = [duplicate(a) for a in arguments]
    kernel.launch(copies, grid=shape[0], workgroup=shape[1], device="emulator").wait()
    named = zip(kernel.parameters, copies, strict=True)
    return {name: a for name, a in named if isinstance(a, np.ndarray) and a.ndim}


def _expected(
    kernel: Kernel,
    reference: Callable[..., Any],
    arguments: Sequence[Any],
    found: Mapping[str, _Array],
) -> Mapping[str, Any]:
    """What the reference says of some arrays, by name."""
    copies = [duplicate(a) for a in arguments]
    given_back = reference(*copies)
    if given_back is None:
        named = zip(kernel.parameters, copies, strict=True)
        return {name: a for name, a in named if name in found}
    if isinstance(given_back, Mapping):
        return given_back  # pyright: ignore[reportUnknownVariableType]
    several: list[Any] = [*given_back] if isinstance(given_back, tuple) else [given_back]  # pyright: ignore[reportUnknownArgumentType]
    written = _written(kernel, arguments)
    assert len(several) == len(written), (
        f"the reference gives {len(several)} arrays, `{kernel.name}` writes {', '.join(written)}"
    )
    return dict(zip(written, several, strict=True))


def _written(kernel: Kernel, arguments: Sequence[Any]) -> list[str]:
    """The names of the arrays that the kernel writes."""
    slots = layout_of(kernel.specialisation(kernel.operands(arguments)).kernel).slots
    places = dict.fromkeys(int(s.source[0]) for s in slots if s.writes and s.ndim is not None)
    return [kernel.parameters[place - len(kernel.bound)] for place in places]


def _close(name: str, got: _Array, want: Any, rtol: float, atol: float) -> None:
    expected = np.asarray(want)
    message = f"`{name}` is not what the reference has"
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected, err_msg=message)
        return
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol, atol, err_msg=message
    )
