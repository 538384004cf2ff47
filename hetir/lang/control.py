"""What steers the compiler or reports: unrolling, uniformity, checks, printing."""

from __future__ import annotations

import string

from hetir.frontend.bundles import any_bundle, each
from hetir.frontend.elementwise import need_scalar
from hetir.frontend.errors import CallError, NotStaticError, StaticAssertError
from hetir.frontend.forms import VectorType
from hetir.frontend.operators import compute, truth
from hetir.frontend.primitive import current, primitive
from hetir.frontend.values import (
    Bundle,
    FormatText,
    KernelValue,
    Typed,
    describe,
    is_plain,
    number_kind,
)
from hetir.ir import ops
from hetir.ir.core import Value

_MOST_STEPS = 65536


@primitive
def static_range(*bounds: KernelValue) -> KernelValue:
    """`range` of constants, for a loop that is unrolled: its variable is a plain number."""
    tracer = current()
    for bound in bounds:
        if number_kind(bound) != "int":
            tracer.fail(
                NotStaticError,
                f"the bounds of `static_range` must be constants, got {describe(bound)}",
                hint="write `range`, or declare the parameter `hl.static`",
            )
    steps = compute(tracer, range, *(int(bound) for bound in bounds))
    if len(steps) > _MOST_STEPS:
        tracer.fail(
            NotStaticError,
            f"`static_range` of {len(steps)} steps would unroll them all",
            hint="write `range`",
        )
    return tuple(steps)


@primitive
def assume_uniform(x: KernelValue) -> KernelValue:
    """`x`, promised to be the same in the whole workgroup; the emulator checks the promise."""
    tracer = current()
    if any_bundle((x,)):
        return each(tracer, "assume_uniform", (x,), lambda v: assume_uniform(v[0]))
    need_scalar(tracer, "assume_uniform", x)
    return x if is_plain(x) else tracer.typed(ops.ASSUME_UNIFORM, tracer.default(x))


@primitive
def static_assert(condition: KernelValue, message: str = "") -> None:
    """Stop compiling unless a constant condition holds."""
    tracer = current()
    if not is_plain(condition):
        tracer.fail(
            NotStaticError,
            f"`static_assert` needs a constant condition, got {describe(condition)}",
            hint="check at run time with `hl.assert_`",
        )
    if not compute(tracer, bool, condition):
        tracer.fail(StaticAssertError, str(message) or "the static check does not hold")


@primitive
def assert_(condition: KernelValue, message: KernelValue = "") -> None:
    """Report this line where `condition` is false at run time; the kernel goes on."""
    tracer = current()
    if not isinstance(message, str):
        tracer.fail(
            CallError,
            f"the message must be a constant str, got {describe(message)}",
            hint="print values with `hl.print`",
        )
    if is_plain(condition):
        if not compute(tracer, bool, condition):
            tracer.fail(StaticAssertError, message or "the check does not hold")
        return
    test = truth(tracer, condition)
    tracer.emit(ops.ASSERT, test, attrs={"message": message or "assertion failed"})


@primitive
def print(format: KernelValue, *values: KernelValue) -> None:
    """Write a line to the launch's output.

    `format` is a str whose `{}` take the scalars or vectors `values` in order, or an f-string;
    without any `{}` the values follow it, separated by spaces.
    """
    tracer = current()
    if isinstance(format, FormatText):
        text, given = format.format, (*format.values, *values)
    elif isinstance(format, str):
        text, given = format, values
    else:
        text, given = "{}", (format, *values)
    count = _fields(text)
    if count == 0 and given:
        text, count = " ".join([text, *["{}"] * len(given)]), len(given)
    if count == 1 and not isinstance(format, (str, FormatText)) and len(given) > 1:
        text, count = " ".join(["{}"] * len(given)), len(given)
    if count != len(given):
        tracer.fail(
            CallError,
            f"the format has {count} `{{}}` for {len(given)} values",
            hint="write one `{}` a value",
        )
    operands: list[Value] = []
    text, spread = _spread(text, given)
    for value in spread:
        need_scalar(tracer, "print", value)
        operands.append(tracer.default(value))
    tracer.emit(ops.PRINT, *operands, attrs={"format": text})


def _spread(text: str, given: tuple[KernelValue, ...]) -> tuple[str, list[KernelValue]]:
    """The format and the values with each vector as its elements in parentheses."""
    pieces: list[str] = []
    values: list[KernelValue] = []
    rest = iter(given)
    for literal, field, _, _ in string.Formatter().parse(text):
        pieces.append(literal.replace("{", "{{").replace("}", "}}"))
        if field is None:
            continue
        value = next(rest)
        if isinstance(value, Bundle) and isinstance(value.type, VectorType):
            pieces.append("(" + ", ".join(["{}"] * value.type.length) + ")")
            values += map(Typed, value.items)
        else:
            pieces.append("{}")
            values.append(value)
    return "".join(pieces), values


def _fields(text: str) -> int:
    """The number of `{}`; any other field is refused."""
    tracer = current()
    try:
        fields = [field[1:] for field in string.Formatter().parse(text) if field[1] is not None]
    except ValueError as error:
        tracer.fail(CallError, f"the format is malformed: {error}", hint="double a `{` to print it")
    if any(name or spec or conversion for name, spec, conversion in fields):
        tracer.fail(CallError, "the format takes plain `{}` only", hint="write `{}`")
    return len(fields)
