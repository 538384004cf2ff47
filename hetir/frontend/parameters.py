"""A kernel's parameters: names, annotations and defaults against the given arguments."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from hetir.diagnostics import Label
from hetir.frontend.arguments import Argument, Static, Tuple, Weak
from hetir.frontend.errors import SignatureError
from hetir.frontend.forms import VectorType
from hetir.frontend.promotion import rank
from hetir.frontend.sources import source_of
from hetir.frontend.values import RANK, shown_array
from hetir.ir.types import ArrayType, Scalar


class StaticMark:
    """The annotation of a compile-time constant: `n: hl.static`."""

    def __repr__(self) -> str:
        return "hl.static"


STATIC = StaticMark()


Annotation = Scalar | ArrayType | VectorType | StaticMark


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `annotation` is its type, STATIC, or None when it says nothing."""

    name: str
    annotation: Annotation | None
    default: object = inspect.Parameter.empty


def parameters(function: Callable[..., object]) -> tuple[Parameter, ...]:
    """The parameters of a kernel. Annotations that hetir does not know are ignored."""
    found: list[Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise SignatureError(
                f"the parameter `{parameter.name}` of a kernel must be an ordinary one",
                *_place(function),
                hint="write the parameters one by one, without `*`",
            )
        annotation = _annotation(function, parameter.annotation)
        found.append(Parameter(parameter.name, annotation, parameter.default))
    return tuple(found)


def _place(function: Callable[..., object]) -> tuple[Label, ...]:
    source = source_of(function)
    loc = source.loc(source.node)
    return (Label(loc, ""),)


def _annotation(function: Any, annotation: Any) -> Annotation | None:
    """What an annotation means, evaluated when it is text."""
    if isinstance(annotation, str):
        names = inspect.getclosurevars(function).nonlocals
        try:
            annotation = eval(annotation, function.__globals__, names)
        except Exception:  # noqa: BLE001 - a hint for another tool
            return None
    known = isinstance(annotation, (Scalar, ArrayType, VectorType, StaticMark))
    return annotation if known else None


@functools.lru_cache(maxsize=256)
def tuple_fields(cls: type) -> tuple[Parameter, ...]:
    """The fields of a NamedTuple class; of their annotations only vectors say something."""
    try:
        hints = get_type_hints(cls)
    except Exception:  # noqa: BLE001 - hints for another tool
        hints = {}
    kinds = ((name, hints.get(name)) for name in getattr(cls, "_fields", ()))
    return tuple(Parameter(n, k if isinstance(k, VectorType) else None) for n, k in kinds)


def settle_arguments(
    function: types.FunctionType,
    described: tuple[Parameter, ...],
    arguments: tuple[Argument, ...],
) -> tuple[Argument, ...]:
    """Fill in defaults and check the arguments against the annotations."""
    name, count = function.__name__, len(arguments)
    if count > len(described):
        raise SignatureError(
            f"`{name}` takes {len(described)} arguments, got {count}", *_place(function)
        )
    settled = [_settle(function, p, a) for p, a in zip(described, arguments, strict=False)]
    for parameter in described[count:]:
        if parameter.default is inspect.Parameter.empty:
            raise SignatureError(
                f"`{name}` needs an argument for `{parameter.name}`", *_place(function)
            )
        settled.append(Static(parameter.default))
    return tuple(settled)


def _settle(function: types.FunctionType, parameter: Parameter, given: Argument) -> Argument:
    wanted = parameter.annotation
    if wanted is None or isinstance(given, Static):
        return given
    if isinstance(wanted, StaticMark):
        raise SignatureError(
            f"`{parameter.name}` is a compile-time constant",
            *_place(function),
            hint="give a value, not a type",
        )
    if isinstance(wanted, Scalar):
        if given == wanted or (isinstance(given, Weak) and RANK[given.kind] <= rank(wanted)):
            return wanted
    elif isinstance(wanted, VectorType):
        if given == wanted:
            return given
    elif isinstance(given, ArrayType) and _same_array(given, wanted):
        return given
    raise SignatureError(
        f"`{parameter.name}` is declared `{_shown(wanted)}`, got `{_shown(given)}`",
        *_place(function),
        hint=_conversion(given, wanted),
    )


def _conversion(given: Argument, wanted: Scalar | ArrayType | VectorType) -> str:
    """How a caller makes of the argument what the annotation says."""
    if isinstance(wanted, VectorType):
        return f"pass a tuple of {wanted.length} numbers; in a signature write `{wanted}`"
    if isinstance(wanted, ArrayType):
        if isinstance(given, ArrayType) and given.ndim == wanted.ndim:
            return f"convert it: `x.astype(np.{wanted.element.numpy})`"
        return f"pass an array of {wanted.ndim} dimensions"
    if isinstance(given, ArrayType):
        return "pass a number: `x.item()`" if given.ndim == 0 else "pass a number"
    return "convert it: `int(x)`" if wanted.is_int else "convert it: `float(x)`"


def _same_array(given: ArrayType, wanted: ArrayType) -> bool:
    return (given.element, given.ndim) == (wanted.element, wanted.ndim)


def _shown(given: Argument) -> str:
    match given:
        case Weak():
            return f"a Python {given.kind}"
        case ArrayType():
            return shown_array(given)
        case Tuple():
            return given.cls.__name__
        case _:
            return str(given)
