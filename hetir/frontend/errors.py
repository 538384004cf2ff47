"""What can be wrong in a kernel's Python: one class a code, HET200 to HET299."""

from __future__ import annotations

from hetir.diagnostics import CompileError


class SourceError(CompileError):
    """The Python source of a function cannot be read.

    Cause: lambdas, `exec` and the prompt of Python before 3.13 keep no text. Fix: put the
    function into a file, a notebook or a `python -c` string.
    """

    code = "HET200"


class UnsupportedSyntaxError(CompileError):
    """A part of Python that kernels do not have.

    Cause: exceptions, `with`, `yield`, strings of kernel values and the like have no meaning on
    a device. Fix: what the hint says to write instead.
    """

    code = "HET201"


class SignatureError(CompileError):
    """Arguments do not fit the kernel's parameters, or a signature string is malformed.

    Cause: another number of arguments, another type than the annotation, or a misspelt type.
    Fix: pass what the annotations say; `"f32, f32[:, ::1], i64"` shows the form of a signature.
    """

    code = "HET202"


class UnsetVariableError(CompileError):
    """A variable is read where some path leaves it without a value.

    Cause: it is assigned in one side of a branch, or in a loop that may not run.
    Fix: give it a value before the branch or loop.
    """

    code = "HET203"


class JoinError(CompileError):
    """A variable has values of unlike kinds where two paths meet.

    Cause: typed values promote within bool, integers or floats, and not between them.
    Fix: convert one of the two assignments.
    """

    code = "HET204"


class OperandError(CompileError):
    """An operation is not defined for its operands' types.

    Cause: such as `i64` with `u64`, or bits of a float. Fix: convert one of them with `.to(...)`.
    """

    code = "HET205"


class NumberRangeError(CompileError):
    """A Python number does not fit the type of the value that it meets.

    Cause: a number takes the type of what it is used with, and is not cut to fit. Fix: convert
    the value to a wider type, or the number with `hl.u8(...)`, which wraps.
    """

    code = "HET206"


class IndexingError(CompileError):
    """A subscript does not fit its array.

    Cause: the wrong number or type of indices, or one outside a fixed shape.
    Fix: one integer or slice for each dimension.
    """

    code = "HET207"


class NotStaticError(CompileError):
    """A value that only exists at run time stands where the compiler needs a constant.

    Cause: shapes of shared arrays, steps of slices and the like are fixed while compiling.
    Fix: declare the parameter `n: hl.static`, or write a number.
    """

    code = "HET208"


class CallError(CompileError):
    """A call that a kernel cannot make, or with arguments that do not fit.

    Cause: a function of NumPy or Python, or a wrong argument. Fix: the function of `hl` that the
    hint names.
    """

    code = "HET209"


class PlainPythonError(CompileError):
    """Python itself raised while computing a plain value of the kernel.

    Cause: values without a kernel value in them are computed while compiling. Fix: as Python says.
    """

    code = "HET210"


class UnknownNameError(CompileError):
    """A name or an attribute that does not exist.

    Cause: a misspelling, or an attribute of NumPy's arrays. Fix: the name that the hint suggests.
    """

    code = "HET211"


class RangeError(CompileError):
    """A `range` with step 0 or with bounds that are not integers.

    Cause: as the message says. Fix: `//` for whole quotients, `.to(hl.i64)` for floats.
    """

    code = "HET212"


class StaticAssertError(CompileError):
    """A check that is decided while compiling does not hold.

    Cause: `assert` or `hl.static_assert` of a plain value that is false. Fix: the arguments.
    """

    code = "HET213"


class ReturnError(CompileError):
    """A kernel returns a value, or a helper's returns do not agree.

    Cause: a kernel gives its results in arrays; a helper has one kind of result.
    Fix: store into an array parameter; return on every path.
    """

    code = "HET214"


class ChoiceError(CompileError):
    """A word such as a memory order or a reduction's op is not one of the legal ones.

    Cause: a misspelling. Fix: one of the words that the message lists.
    """

    code = "HET215"


class RecursionRefusedError(CompileError):
    """A helper function calls itself.

    Cause: devices have no stack for calls; recursion over plain values ends while compiling and
    is refused past a depth. Fix: write a loop.
    """

    code = "HET216"


class NestingError(CompileError):
    """Branches, loops or expressions nest too deeply.

    Cause: a chain of many `elif`, or a generated expression. Fix: move a part into a helper
    function, or use a loop over a table.
    """

    code = "HET219"


class UnpackError(CompileError):
    """A tuple is assigned to more or fewer names than it has values.

    Cause: as the message counts. Fix: as many names as values.
    """

    code = "HET218"
