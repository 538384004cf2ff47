"""What can be wrong in a kernel's Python: one class a code, HET200 to HET299."""

from __future__ import annotations

from hetir.diagnostics import CompileError


class SourceError(CompileError):
    """The Python source of a function cannot be read.

    The compiler reads the text of a kernel. Lambdas, `exec` and the prompt of Python before
    3.13 keep none; put the function into a file, a notebook or a `python -c` string.
    """

    code = "HET200"


class UnsupportedSyntaxError(CompileError):
    """A part of Python that kernels do not have; the hint says what to write instead."""

    code = "HET201"


class SignatureError(CompileError):
    """Arguments do not fit the kernel's parameters, or a signature string is malformed."""

    code = "HET202"


class UnsetVariableError(CompileError):
    """A variable is read where some path leaves it without a value.

    Give it a value before the branch or loop that assigns it.
    """

    code = "HET203"


class JoinError(CompileError):
    """A variable has values of unlike kinds where two paths meet.

    Typed values promote within bool, integers or floats; convert one of the two assignments.
    """

    code = "HET204"


class OperandError(CompileError):
    """An operation is not defined for its operands' types; convert one of them."""

    code = "HET205"


class NumberRangeError(CompileError):
    """A Python number does not fit the type of the value that it meets.

    Convert the typed value to a wider type, or the number with `hl.u8(...)`, which wraps.
    """

    code = "HET206"


class IndexingError(CompileError):
    """A subscript has the wrong number or type of indices, or is out of a fixed shape."""

    code = "HET207"


class NotStaticError(CompileError):
    """A value that only exists at run time stands where the compiler needs a constant.

    Declare the parameter `n: hl.static`, or write a number.
    """

    code = "HET208"


class CallError(CompileError):
    """A call that a kernel cannot make, or with arguments that do not fit."""

    code = "HET209"


class PlainPythonError(CompileError):
    """Python itself raised while computing a plain value of the kernel."""

    code = "HET210"


class UnknownNameError(CompileError):
    """A name or an attribute that does not exist."""

    code = "HET211"


class RangeError(CompileError):
    """A `range` with step 0 or with bounds that are not integers."""

    code = "HET212"


class StaticAssertError(CompileError):
    """A check that is decided while compiling does not hold."""

    code = "HET213"


class ReturnError(CompileError):
    """A kernel returns a value, or a helper's returns do not agree."""

    code = "HET214"


class ChoiceError(CompileError):
    """A word such as a memory order or a reduction's op is not one of the legal ones."""

    code = "HET215"


class RecursionRefusedError(CompileError):
    """A helper function calls itself; write a loop."""

    code = "HET216"


class NestingError(CompileError):
    """Branches, loops or expressions nest too deeply; move a part into a helper function."""

    code = "HET219"


class UnpackError(CompileError):
    """A tuple is assigned to more or fewer names than it has values."""

    code = "HET218"
