"""Mistakes that users make, each with the exact text that they read (tests/golden/errors)."""

import linecache
import textwrap

import pytest

from hetir.diagnostics import HetirError
from hetir.frontend import parse_signature, trace
from hetir.ir.build import IllFormedError

# name: (signature, source); the kernel is called `kernel`
CASES = {
    "array_arithmetic": ("f32[:], f32[:]", """
        def kernel(x, y):
            y[0] = x * 2
        """),
    "array_as_condition": ("f32[:]", """
        def kernel(x):
            if x:
                x[0] = 1
        """),
    "assign_sub_array": ("f32[:, :]", """
        def kernel(x):
            x[hl.global_id(0)] = 0
        """),
    "assert_false": ("f32[:], 3", """
        def kernel(x, n: hl.static):
            assert n % 2 == 0, "n must be even"
        """),
    "atomic_on_element": ("f32[:]", """
        def kernel(x):
            hl.atomic_add(x[0], 0, 1)
        """),
    "atomic_or_of_floats": ("f32[:]", """
        def kernel(x):
            hl.atomic_or_(x, 0, 1)
        """),
    "attribute_of_array": ("f32[:]", """
        def kernel(x):
            x[0] = x.mean()
        """),
    "attribute_of_module": ("f32[:]", """
        def kernel(x):
            x[0] = hl.gloabl_id(0)
        """),
    "bit_operation_on_floats": ("f32[:]", """
        def kernel(x):
            x[0] = x[0] & 1
        """),
    "bitcast_of_other_width": ("f32[:]", """
        def kernel(x):
            x[0] = hl.bitcast(x[0], hl.i64)
        """),
    "call_of_a_number": ("f32[:], f32", """
        def kernel(x, a):
            x[0] = a(x[1])
        """),
    "call_of_numpy": ("f32[:]", """
        import numpy as np
        def kernel(x):
            x[0] = np.exp(x[0])
        """),
    "call_of_numpy_type": ("f32[:]", """
        import numpy as np
        def kernel(x):
            x[0] = np.float32(x[0])
        """),
    "call_of_print": ("f32[:]", """
        def kernel(x):
            print(x[0])
        """),
    "captured_array": ("f32[:]", """
        import numpy as np
        TABLE = np.arange(4.0)
        def kernel(x):
            i = hl.global_id(0)
            x[i] = TABLE[i]
        """),
    "category_changes_at_a_join": ("f32[:], i32[:]", """
        def kernel(x, i):
            if x[0] > 0:
                v = x[1]
            else:
                v = i[0]
            x[2] = v
        """),
    "category_changes_in_a_loop": ("f32[:], i64", """
        def kernel(x, n):
            count = hl.i32(0)
            for i in range(n):
                count += x[i]
            x[0] = count
        """),
    "compare_array": ("f32[:], f32[:]", """
        def kernel(x, y):
            if x == y:
                x[0] = 1
        """),
    "comprehension_over_array": ("f32[:]", """
        def kernel(x):
            x[0] = sum(v for v in x)
        """),
    "dimension_out_of_range": ("f32[:]", """
        def kernel(x):
            x[hl.global_id(3)] = 1
        """),
    "f8_arithmetic": ("f8e4m3[:]", """
        def kernel(x):
            x[0] = x[0] + x[1]
        """),
    "float_index": ("f32[:]", """
        def kernel(x):
            x[hl.global_id(0) / 2] = 1
        """),
    "float_range": ("f32[:]", """
        def kernel(x):
            for i in range(len(x) / 2):
                x[i] = 1
        """),
    "fstring_outside_print": ("f32[:]", """
        def show(text):
            pass
        def kernel(x):
            show(f"value {x[0]}")
        """),
    "helper_recursion": ("f32[:]", """
        def factorial(n):
            return 1 if n < 2 else n * factorial(n - 1)
        def kernel(x):
            x[0] = factorial(x[0])
        """),
    "helper_returns_sometimes": ("f32[:]", """
        def positive(v):
            if v > 0:
                return v
        def kernel(x):
            x[0] = positive(x[0])
        """),
    "helper_with_wrong_arguments": ("f32[:]", """
        def mix(a, b, t):
            return a + (b - a) * t
        def kernel(x):
            x[0] = mix(x[0], x[1])
        """),
    "error_inside_a_helper": ("f32[:]", """
        def inner(v):
            return v.sum()
        def outer(v):
            return inner(v) * 2
        def kernel(x):
            x[0] = outer(x[1])
        """),
    "i64_with_u64": ("i64[:], u64[:]", """
        def kernel(x, y):
            x[0] = x[1] + y[0]
        """),
    "import_in_kernel": ("f32[:]", """
        def kernel(x):
            import math
            x[0] = math.pi
        """),
    "index_past_static_shape": ("f32[:]", """
        def kernel(x):
            tile = hl.shared((4, 4), hl.f32)
            x[0] = tile[1, 4]
        """),
    "kernel_returns_a_value": ("f32[:]", """
        def kernel(x):
            return x[0]
        """),
    "lambda": ("f32[:]", """
        def kernel(x):
            double = lambda v: v * 2
            x[0] = double(x[1])
        """),
    "list_append": ("f32[:]", """
        def kernel(x):
            values = []
            values.append(x[0])
        """),
    "literal_too_large": ("u8[:]", """
        def kernel(x):
            x[0] = x[0] + 300
        """),
    "loop_else": ("f32[:]", """
        def kernel(x):
            for i in range(4):
                if x[i] < 0:
                    break
            else:
                x[0] = 1
        """),
    "matmul_operator": ("f32[:, :], f32[:, :]", """
        def kernel(a, b):
            a[0, 0] = a @ b
        """),
    "misspelt_order": ("i32[:]", """
        def kernel(x):
            hl.atomic_add(x, 0, 1, order="aquire")
        """),
    "misspelt_reduction": ("f32[:]", """
        def kernel(x):
            x[0] = hl.workgroup_reduce(x[0], "sum")
        """),
    "misspelt_variable": ("f32[:]", """
        def kernel(x):
            value = x[0]
            x[1] = valeu
        """),
    "nested_too_deeply": ("f32[:]", "def kernel(x):\n    if x[0] < 0:\n        x[1] = 0\n"
    + "".join(
        f"    elif x[0] == {i}:\n        x[1] = {i}\n" for i in range(1, 120)
    )),
    "negative_index": ("f32[:]", """
        def kernel(x):
            x[-1] = 0
        """),
    "parameter_with_star": ("f32[:]", """
        def kernel(*x):
            x[0] = 0
        """),
    "power_of_a_variable": ("f32[:], f32", """
        def kernel(x, p):
            x[0] = x[0] ** p
        """),
    "print_count": ("f32[:]", """
        def kernel(x):
            hl.print("{} and {}", x[0])
        """),
    "raise": ("f32[:]", """
        def kernel(x):
            if x[0] < 0:
                raise ValueError("negative")
        """),
    "range_step_zero": ("f32[:], i64", """
        def kernel(x, n):
            for i in range(0, n, 0):
                x[i] = 1
        """),
    "run_time_shape": ("f32[:], int", """
        def kernel(x, n):
            tile = hl.shared(n, hl.f32)
            tile[0] = x[0]
        """),
    "run_time_static_range": ("f32[:], i64", """
        def kernel(x, n):
            for i in hl.static_range(n):
                x[i] = 1
        """),
    "select_between_arrays": ("f32[:], f64[:]", """
        def kernel(x, y):
            a = x if x[0] > 0 else y
            a[0] = 1
        """),
    "string_of_kernel_value": ("f32[:]", """
        def kernel(x):
            text = str(x[0])
        """),
    "swap_shared_arrays": ("f32[:]", """
        def kernel(x):
            a = hl.shared(8, hl.f32)
            b = hl.shared(8, hl.f32)
            for i in range(4):
                a[i] = b[i]
                a, b = b, a
            x[0] = a[0]
        """),
    "store_into_a_number": ("f32[:], f32", """
        def kernel(x, a):
            a[0] = x[0]
        """),
    "too_many_indices": ("f32[:]", """
        def kernel(x):
            x[0, 1] = 2
        """),
    "try": ("f32[:]", """
        def kernel(x):
            try:
                x[0] = 1 / x[1]
            except ZeroDivisionError:
                x[0] = 0
        """),
    "tuple_indexed_at_run_time": ("f32[:]", """
        def kernel(x):
            weights = (0.25, 0.5, 0.25)
            for i in range(3):
                x[i] *= weights[i]
        """),
    "tuple_unpacked_wrongly": ("f32[:, :]", """
        def kernel(x):
            n, = x.shape
            x[0, 0] = n
        """),
    "unset_in_a_branch": ("f32[:]", """
        def kernel(x):
            if x[0] > 0:
                scale = 2.0
            x[0] = scale * x[0]
        """),
    "unset_in_a_loop": ("f32[:], i64", """
        def kernel(x, n):
            for i in range(n):
                last = x[i]
            x[0] = last
        """),
    "used_before_assignment": ("f32[:]", """
        def kernel(x):
            total += x[0]
            total = 0
        """),
    "vector_as_condition": ("f32x4, f32[:]", """
        def kernel(v, x):
            if v > 0:
                x[0] = 1
        """),
    "vector_changed": ("f32x4", """
        def kernel(v):
            v[0] = 1
        """),
    "vector_element_assigned": ("f32x4", """
        def kernel(v):
            v.x = 1.0
        """),
    "vector_index_too_large": ("f32x4, f32[:]", """
        def kernel(v, x):
            x[0] = v[4]
        """),
    "vector_into_one_element": ("f32x4, f32[:]", """
        def kernel(v, x):
            x[0] = v * 2
        """),
    "vector_joins_a_scalar": ("f32x4, f32[:]", """
        def kernel(v, x):
            if x[0] > 0:
                a = v
            else:
                a = x[1]
            x[0] = hl.dot(a, v)
        """),
    "vector_length_at_run_time": ("f32[:], i32", """
        def kernel(x, n):
            x[0] = hl.load_vector(x, 0, n).x
        """),
    "vector_lengths_differ": ("f32x4, f32x3, f32[:]", """
        def kernel(v, w, x):
            x[0] = hl.dot(v, w)
        """),
    "vector_of_five": ("f32[:]", """
        def kernel(x):
            v = hl.vector(hl.f32, 5)
        """),
    "vector_of_wrong_count": ("f32x2, f32[:]", """
        def kernel(v, x):
            w = hl.vector(hl.f32, 4)(v, 1.0)
        """),
    "vector_past_static_shape": ("f32[:]", """
        def kernel(x):
            t = hl.private(8, hl.f32)
            x[0] = hl.load_vector(t, 5, 4).x
        """),
    "vector_slice_of_one": ("f32x4, f32[:]", """
        def kernel(v, x):
            x[0] = v[1:2]
        """),
    "vector_reduced": ("f32x2, f32[:]", """
        def kernel(v, x):
            x[0] = hl.workgroup_reduce(v, "add").x
        """),
    "vector_stored_without_axes": ("f32x2, f32[:, :]", """
        def kernel(v, x):
            hl.store_vector(x, 0, v)
        """),
    "vector_swizzle": ("f32x2, f32[:]", """
        def kernel(v, x):
            x[0] = v.xyz.z
        """),
    "vector_to_int": ("f32x2, i32[:]", """
        def kernel(v, x):
            x[0] = int(v)
        """),
    "vectors_shared": ("f32[:]", """
        def kernel(x):
            t = hl.shared(32, hl.vector(hl.f32, 4))
        """),
    "while_over_array": ("f32[:]", """
        def kernel(x):
            for v in x:
                v += 1
        """),
    "with_tab_and_umlaut": ("f32[:]", """
        def kernel(x):
        \tgrün = x[0]; x[1] = grün & 1
        """),
    "wrong_argument_name": ("f32[:]", """
        def kernel(x):
            hl.atomic_add(x, index=0, vale=1)
        """),
    "plain_python_raises": ("f32[:], 0", """
        def kernel(x, n: hl.static):
            x[0] = 256 // n
        """),
    "yield": ("f32[:]", """
        def kernel(x):
            yield x[0]
        """),
    "shared_array_returned_twice": ("f32[:]", """
        def tile(n):
            a = hl.shared(64, hl.f32)
            b = hl.shared(64, hl.f32)
            if n > 64:
                return a
            return b
        def kernel(x):
            tile(len(x))[0] = x[0]
        """),
    "static_given_a_type": ("f32[:], i64", """
        def kernel(x, n: hl.static):
            x[0] = n
        """),
    "annotation_does_not_fit": ("f32[:], f32", """
        def kernel(x, n: hl.i32):
            x[0] = n
        """),
    "missing_argument": ("f32[:]", """
        def kernel(x, y):
            x[0] = y[0]
        """),
    "fragment_indexed": ("f32[:, :]", """
        def kernel(x):
            f = hl.load_fragment(hl.fragment("a", 8, 8, hl.f32), x, (0, 0))
            x[0, 0] = f[0]
        """),
    "fragment_of_a_vector": ("f32[:]", """
        def kernel(x):
            f = hl.load_fragment(hl.fragment("a", 8, 8, hl.f32), x, 0)
        """),
    "fragment_sides": ("f32[:, :]", """
        def kernel(x):
            f = hl.fragment("a", 8, 12, hl.f32)(0)
        """),
    "fragments_combined": ("f32[:, :]", """
        def kernel(x):
            f = hl.fragment("a", 8, 8, hl.f32)(0)
            g = hl.fragment("b", 8, 8, hl.f32)(0)
            hl.store_fragment(x, (0, 0), f + g)
        """),
    "fragments_do_not_fit": ("f32[:, :]", """
        def kernel(x):
            f = hl.fragment("a", 8, 4, hl.f32)(0)
            g = hl.fragment("b", 8, 8, hl.f32)(0)
            hl.store_fragment(x, (0, 0), hl.mma(f, g, hl.fragment("acc", 8, 8, hl.f32)(0)))
        """),
    "fragments_of_unlike_types": ("f32[:, :]", """
        def kernel(x):
            f = hl.fragment("a", 8, 8, hl.f16)(0)
            g = hl.fragment("b", 8, 8, hl.f16)(0)
            hl.store_fragment(x, (0, 0), hl.mma(f, g, hl.fragment("acc", 8, 8, hl.f64)(0)))
        """),
    "grid_barrier": ("f32[:]", """
        def kernel(x):
            hl.barrier(scope="device")
        """),
}  # fmt: skip


def define(name, text):
    file = f"{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"__name__": "example"}
    exec("import hetir.lang as hl", scope)
    exec(compile(text, file, "exec"), scope)
    return scope["kernel"]


@pytest.mark.parametrize("name", CASES)
def test_text(name, golden):
    signature, source = CASES[name]
    kernel = define(name, textwrap.dedent(source).lstrip("\n"))
    with pytest.raises(HetirError) as caught:
        trace(kernel, parse_signature(signature))
    # a rule of the IR that breaks is a fault of the frontend, not a user's error
    assert not isinstance(caught.value, IllFormedError)
    golden.check(f"errors/{name}.txt", f"{caught.value}\n")


def test_there_are_enough():
    assert len(CASES) >= 40


def test_a_number_of_thousands_of_digits():
    kernel = define("huge", "def kernel(x):\n    x[0] = 10**5000\n")
    with pytest.raises(HetirError, match=r"`0x[0-9a-f]+\.\.\.` does not fit `f32`"):
        trace(kernel, parse_signature("f32[:]"))


def test_long_chains_of_calls_are_cut():
    source = "def endless(n):\n    return endless(n + 1)\ndef kernel(x):\n    x[0] = endless(1)\n"
    with pytest.raises(HetirError, match="calls itself") as caught:
        trace(define("endless", source), parse_signature("f32[:]"))
    text = str(caught.value)
    assert text.count("called from here") == 8
    assert " = called through " in text


def test_outside_of_a_kernel():
    import hetir.lang as hl

    for call in (
        lambda: hl.global_id(0),
        lambda: hl.exp(1.0),
        lambda: hl.f32(2),
        lambda: hl.workgroup_reduce(1, "add"),
        lambda: hl.shared(4, hl.f32),
        hl.barrier,
    ):
        with pytest.raises(HetirError, match="works only inside a kernel"):
            call()


def test_bad_annotations():
    import hetir.lang as hl

    for key in [hl.f32, (hl.f32,), (hl.f32, 7), (hl.f32, -1), (3, 1), (hl.f32, 1.0)]:
        with pytest.raises(HetirError):
            hl.Array[key]
