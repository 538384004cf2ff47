"""Python functions to hetIR: an interpreter of the syntax tree over plain and kernel values."""

from hetir.frontend.arguments import Argument, Static, Tuple, Weak
from hetir.frontend.captures import Capture
from hetir.frontend.forms import VectorType
from hetir.frontend.parameters import STATIC, Parameter, StaticMark, parameters, tuple_fields
from hetir.frontend.primitive import Func, func
from hetir.frontend.signature import parse_signature
from hetir.frontend.trace import Traced, record, trace

__all__ = [
    "STATIC",
    "Argument",
    "Capture",
    "Func",
    "Parameter",
    "Static",
    "StaticMark",
    "Traced",
    "Tuple",
    "VectorType",
    "Weak",
    "func",
    "parameters",
    "parse_signature",
    "record",
    "trace",
    "tuple_fields",
]
