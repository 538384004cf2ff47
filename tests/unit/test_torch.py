"""PyTorch operators: what torch's own checks say of them, and PyTorch's own results."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import hetir
import hetir.lang as hl
import hetir.torch
from hetir.torch import OperatorError, TensorError

GROUP = 64
_numbers = itertools.count()


def fresh() -> str:
    """A name that no other test has."""
    return f"hetir_tests::op{next(_numbers)}"


@hetir.kernel
def softmax_forward(x, y):
    row, lane = hl.group_id(0), hl.local_id(0)
    largest = x[row, 0]
    for j in range(lane, x.shape[1], GROUP):
        largest = max(largest, x[row, j])
    largest = hl.workgroup_reduce(largest, "max")
    total = x[row, 0] * 0
    for j in range(lane, x.shape[1], GROUP):
        total += hl.exp(x[row, j] - largest)
    total = hl.workgroup_reduce(total, "add")
    for j in range(lane, x.shape[1], GROUP):
        y[row, j] = hl.exp(x[row, j] - largest) / total


@hetir.kernel
def softmax_backward(y, grad_y, grad_x):
    row, lane = hl.group_id(0), hl.local_id(0)
    total = y[row, 0] * 0
    for j in range(lane, y.shape[1], GROUP):
        total += y[row, j] * grad_y[row, j]
    total = hl.workgroup_reduce(total, "add")
    for j in range(lane, y.shape[1], GROUP):
        grad_x[row, j] = y[row, j] * (grad_y[row, j] - total)


back = hetir.torch.op(
    fresh(), softmax_backward, outputs=lambda y, grad_y: torch.empty_like(y),
    grid=lambda y, grad_y: y.shape[0], workgroup=GROUP,
)  # fmt: skip
softmax = hetir.torch.op(
    fresh(), softmax_forward, outputs=lambda x: torch.empty_like(x),  # noqa: PLW0108
    grid=lambda x: x.shape[0], workgroup=GROUP, backward=back, batch=["x"], autocast=torch.float32,
)  # fmt: skip


@hetir.kernel
def scale_in_place(x: hl.Array[hl.f32, 1], by: hl.f32):
    i = hl.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] * by


scale_ = hetir.torch.op(
    fresh(), scale_in_place, grid=lambda x, by: hetir.cdiv(x.numel(), GROUP), workgroup=GROUP,
    mutates=["x"],
)  # fmt: skip


@hetir.kernel
def plus(x: hl.Array[hl.f32, 1], by: hl.f32, y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + by


add = hetir.torch.op(
    fresh(), plus, outputs=lambda x, by: torch.empty_like(x),
    grid=lambda x, by: hetir.cdiv(x.numel(), GROUP), workgroup=GROUP,
)  # fmt: skip


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-6, atol=1e-6)


def test_the_schema_follows_the_signature():
    assert softmax.schema == "(Tensor x) -> Tensor"
    assert add.schema == "(Tensor x, float by) -> Tensor"
    assert scale_.schema == "(Tensor(a0!) x, float by) -> ()"


@pytest.mark.parametrize("shape", [(1, 1), (7, 100), (3, 64), (5, 65)])
def test_eager(shape):
    x = torch.randn(shape)
    close(softmax(x), torch.softmax(x, 1))


def test_strides_views_and_empty_tensors():
    x = torch.randn(30, 40)
    close(softmax(x.t()), torch.softmax(x.t(), 1))
    close(softmax(x[::3, 5:20:2]), torch.softmax(x[::3, 5:20:2], 1))
    close(softmax(torch.randn(1, 9).expand(4, 9)).sum(1), torch.ones(4))
    assert softmax(torch.empty(0, 5)).shape == (0, 5)


def test_torchs_own_checks():
    """`opcheck`: schema, autograd registration, fake tensors, and dynamic AOT dispatch."""
    for given in (
        torch.randn(5, 33),
        torch.randn(5, 33, requires_grad=True),
        torch.randn(9, 4).t(),
    ):
        found = torch.library.opcheck(softmax.call.default, (given,))
        assert set(found.values()) == {"SUCCESS"}
    assert set(torch.library.opcheck(scale_.call.default, (torch.randn(8), 2.0)).values()) == {
        "SUCCESS"
    }


def test_gradients_are_right_in_f64():
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softmax, (x,))


def test_gradients_are_pytorchs():
    x = torch.randn(6, 50, requires_grad=True)
    grad = torch.randn(6, 50)
    (ours,) = torch.autograd.grad(softmax(x), x, grad)
    (theirs,) = torch.autograd.grad(torch.softmax(x, 1), x, grad)
    close(ours, theirs)


def test_compiled_whole():
    whole = torch.compile(lambda x: softmax(x) * 2 + 1, fullgraph=True, backend="aot_eager")
    for rows in (3, 4, 9):
        x = torch.randn(rows, 20)
        close(whole(x), torch.softmax(x, 1) * 2 + 1)
    x = torch.randn(3, 20, requires_grad=True)
    whole(x)[:, 0].sum().backward()
    (want,) = torch.autograd.grad((torch.softmax(x, 1) * 2 + 1)[:, 0].sum(), x)
    close(x.grad, want)


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, x):
            return softmax(x) + 1

    program = torch.export.export(Model(), (torch.randn(3, 5),))
    x = torch.randn(3, 5)
    close(program.module()(x), torch.softmax(x, 1) + 1)
    names = {str(node.target) for node in program.graph.nodes}
    assert any(softmax.name.split("::")[1] in name for name in names)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_vmap_folds_declared_rows(axis):
    x = torch.randn(4, 5, 6)
    want = torch.stack([torch.softmax(one, 1) for one in x.unbind(axis)])
    close(torch.vmap(softmax, in_dims=axis)(x), want)


def test_vmap_without_a_declaration_runs_one_by_one():
    x = torch.randn(5, 12)
    close(torch.vmap(lambda row: add(row, 2.0))(x), x + 2)


def test_autocast():
    x = torch.randn(4, 10).to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        y = softmax(x)
    assert y.dtype == torch.float32
    close(y, torch.softmax(x.float(), 1))


def test_what_is_written_is_declared():
    x = torch.arange(10, dtype=torch.float32)
    version = x._version
    assert scale_(x, 3.0) is None
    close(x, torch.arange(10) * 3.0)
    assert x._version > version
    view = torch.zeros(20)
    scale_(view[1::2], 2.0)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(x):
        y = x + 1
        scale_(y, 5.0)
        return y

    close(f(torch.ones(4)), torch.full((4,), 10.0))


def test_types_by_specialisation():
    """Unannotated parameters take each type; NumPy says what is right."""
    for kind in (torch.float64, torch.float16):
        x = torch.randn(3, 40).to(kind)
        y = softmax(x)
        assert y.dtype == kind
        wide = x.double().numpy()
        e = np.exp(wide - wide.max(1, keepdims=True))
        np.testing.assert_allclose(y.double().numpy(), e / e.sum(1, keepdims=True), atol=2e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: add(torch.randn(4).double(), 1.0), r"declared `f32\[:\]`, got `f64\[:\]`"),
        (lambda: add(torch.randn(4, 4), 1.0), r"got `f32\[:, :\]`"),
        (lambda: add(torch.tensor(1.0), 1.0), "got `f32"),
    ],
    ids=["type", "rank", "no axes"],
)
def test_wrong_tensors_are_refused(call, words):
    with pytest.raises(TensorError, match=words):
        call()


def test_a_missing_backward_is_an_error_of_the_gradient_only():
    x = torch.randn(4, requires_grad=True)
    y = add(x, 1.0)
    with pytest.raises(TensorError, match="has no backward"):
        y.sum().backward()


def _declare(**changes):
    given = {"outputs": lambda x, by: torch.empty_like(x), "grid": lambda x, by: 1, "workgroup": 8}
    return hetir.torch.op(changes.pop("name", fresh()), changes.pop("kernel", plus),
                          **(given | changes))  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "plain"}, "is no operator's name"),
        ({"kernel": lambda x: x}, "needs a kernel"),
        ({"outputs": lambda *given: given[0]}, "must name its arguments"),
        ({"outputs": lambda x, by, y: x}, "leaves no parameter"),
        ({"mutates": ["z"]}, "is no input"),
        ({"batch": ["z"]}, "is no input"),
        ({"backward": softmax}, "is no gradient of an input"),
        ({"name": softmax.name}, "cannot be defined"),
    ],
    ids=["name", "kernel", "star", "outputs", "mutates", "batch", "backward", "twice"],
)
def test_wrong_declarations_are_refused(changes, words):
    with pytest.raises(OperatorError, match=words):
        _declare(**changes)


def test_element_wise_functions():
    def gate(a, b):
        return a / (1 + hl.exp(-a)) * b

    swiglu = hetir.torch.kernel_from(gate, fresh())
    a, b = torch.randn(3, 4), torch.randn(4)
    close(swiglu(a, b), torch.nn.functional.silu(a) * b)
    close(swiglu(a.double(), b).float(), torch.nn.functional.silu(a) * b)
    assert swiglu(torch.empty(0, 4), b).shape == (0, 4)


@pytest.mark.parametrize("other", [
    torch.tensor(2.0, dtype=torch.float64), torch.tensor(3), torch.ones(3, dtype=torch.float64),
    torch.ones(3, dtype=torch.int32),
])  # fmt: skip
def test_element_wise_functions_promote_as_torch_does(other):
    def product(a, b):
        return a * b

    multiply = hetir.torch.kernel_from(product, fresh())
    x = torch.arange(3, dtype=torch.float32)
    for made, wanted in ((multiply(x, other), x * other), (multiply(other, x), other * x)):
        assert made.dtype == wanted.dtype
        close(made, wanted)
    with pytest.raises(TensorError, match=r"takes tensors, got 2\.0"):
        multiply(x, 2.0)


@hetir.kernel
def count_up(x: hl.Array[hl.f32, 1], y: hl.Array[hl.f32, 1]):
    i = hl.global_id(0)
    if i < x.shape[0]:
        x[i] += 1
        y[i] = x[i] * 2


def test_what_is_written_under_vmap_and_autograd():
    """An input that is written may come with outputs; no gradient is silently wrong."""
    given = {"grid": lambda x: 1, "workgroup": GROUP, "mutates": ["x"], "batch": ["x"]}
    up = hetir.torch.op(fresh(), count_up, outputs=lambda x: torch.empty_like(x),  # noqa: PLW0108
                        **given)  # fmt: skip
    x = torch.zeros(3, 4)
    close(torch.vmap(up, in_dims=1)(x), torch.full((4, 3), 2.0))
    close(x, torch.ones(3, 4))
    leaf = torch.ones(4, requires_grad=True)
    with pytest.raises(TensorError, match="writes `x`, which needs a gradient"):
        up(leaf * 1)
    compiled = torch.compile(lambda x: up(x * 1), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="writes `x`, which needs a gradient"):
        compiled(leaf)
    with torch.no_grad():
        up(leaf)
    close(leaf.detach(), torch.full((4,), 2.0))
    add_ = hetir.torch.op(fresh(), count_up, grid=lambda x, y: 1, workgroup=GROUP, mutates=["x"])
    with pytest.raises(TensorError, match="writes `x`, which vmap does not batch"):
        torch.vmap(lambda y: add_(torch.ones(3), y))(torch.ones(2, 3))
    with pytest.raises(OperatorError, match="no gradients of such operators"):
        hetir.torch.op(fresh(), count_up, outputs=lambda x: torch.empty_like(x),  # noqa: PLW0108
                       backward=lambda *_: None, **given)  # fmt: skip


def test_vmap_of_no_elements():
    close(torch.vmap(softmax)(torch.empty(0, 3, 4)), torch.empty(0, 3, 4))


def test_types_that_kernels_do_not_have_name_the_operator():
    with pytest.raises(TensorError, match=f"{softmax.name}.*complex64"):
        softmax(torch.ones(2, 2, dtype=torch.complex64))


def test_the_example_trains_as_pytorch_does():
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "examples/torch_ops.py"], cwd=root, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = ended.stdout.splitlines()
    assert len(lines) == 6
    first, last = (float(line.split()[3]) for line in (lines[0], lines[-1]))
    assert last < first / 2


# ---- torch.func --------------------------------------------------------------------------


def uneven(y: torch.Tensor) -> torch.Tensor:
    """A sum whose gradients all differ; no term is larger than 1, as `close` takes for granted."""
    return (y * torch.arange(y.numel()).reshape(y.shape) / y.numel()).sum()


def total(x: torch.Tensor) -> torch.Tensor:
    return uneven(softmax(x))


def of_torch(x: torch.Tensor) -> torch.Tensor:
    return uneven(torch.softmax(x, 1))


def test_reverse_mode_of_torch_func():
    x = torch.randn(3, 5)
    close(torch.func.grad(total)(x), torch.func.grad(of_torch)(x))
    rows = lambda f: lambda x: f(x, 1)  # noqa: E731
    jacobian = torch.func.jacrev(rows(torch.softmax))(x)
    close(torch.func.jacrev(softmax)(x), jacobian)
    close(torch.func.vjp(softmax, x)[1](x)[0], torch.func.vjp(rows(torch.softmax), x)[1](x)[0])
    several = torch.randn(4, 3, 5)
    close(
        torch.vmap(torch.func.grad(total))(several), torch.vmap(torch.func.grad(of_torch))(several)
    )
    outer = torch.func.grad(lambda x: torch.vmap(total)(x).sum())
    close(outer(several), torch.vmap(torch.func.grad(of_torch))(several))


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_is_refused():
    """It used to give zeros."""
    x = torch.randn(3, 5)
    for forward in (
        lambda: torch.func.jvp(softmax, (x,), (x,)),
        lambda: torch.func.jacfwd(softmax)(x),
        lambda: dual(softmax, x),
    ):
        with pytest.raises(TensorError, match="has no forward-mode derivative"):
            forward()
    y, tangent = torch.func.jvp(lambda v: v * softmax(x), (x,), (torch.ones_like(x),))
    close(y, x * torch.softmax(x, 1))
    close(tangent, torch.softmax(x, 1))


def dual(function, x):
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


def test_what_torch_func_cannot_be_told_is_refused():
    x = torch.randn(3, 5)
    with pytest.raises(TensorError, match=r"knows no derivative of `.*` for torch\.func"):
        torch.func.grad(lambda x: softmax.call(x).sum())(x)
    with pytest.raises(TensorError, match="has no backward"):
        torch.func.grad(lambda x: add(x, by=2.0).sum())(torch.randn(7))
