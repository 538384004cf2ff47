"""PyTorch operators from hetir kernels, and a small transformer block trained with them.

    python examples/torch_ops.py

The same block is trained once with these operators and once with PyTorch's own; the losses agree.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

import hetir
import hetir.lang as hl
import hetir.torch
from hetir import library

GROUP = 64
EPSILON = library.load(library.folder() / "rms_norm.py").EPSILON


def kernel(name: str) -> Any:
    """A kernel of the library."""
    return getattr(library.load(library.folder() / f"{name}.py"), name)


def rows(*given: torch.Tensor) -> int:
    """A workgroup a row."""
    return given[0].shape[0]


# ---- RMSNorm ------------------------------------------------------------------------------


@hetir.kernel
def rms_norm_rows(
    x: hl.Array[hl.f32, 2],
    weight: hl.Array[hl.f32, 1],
    grad_y: hl.Array[hl.f32, 2],
    grad_x: hl.Array[hl.f32, 2],
    scale: hl.Array[hl.f32, 1],
) -> None:
    """The gradient of x, and one over the root of each row's mean square."""
    row, lane, width = hl.group_id(0), hl.local_id(0), x.shape[1]
    square, product = hl.f32(0), hl.f32(0)
    for j in range(lane, width, GROUP):
        square += x[row, j] * x[row, j]
        product += x[row, j] * weight[j] * grad_y[row, j]
    s = 1.0 / hl.sqrt(hl.workgroup_reduce(square, "add") / hl.f32(width) + EPSILON)
    inner = hl.workgroup_reduce(product, "add") * s * s * s / hl.f32(width)
    for j in range(lane, width, GROUP):
        grad_x[row, j] = s * weight[j] * grad_y[row, j] - x[row, j] * inner
    if lane == 0:
        scale[row] = s


@hetir.kernel
def rms_norm_columns(
    x: hl.Array[hl.f32, 2],
    grad_y: hl.Array[hl.f32, 2],
    scale: hl.Array[hl.f32, 1],
    grad_weight: hl.Array[hl.f32, 1],
) -> None:
    """The gradient of the weight, rows added in order."""
    j = hl.global_id(0)
    if j < x.shape[1]:
        total = hl.f32(0)
        for row in range(x.shape[0]):
            total += x[row, j] * scale[row] * grad_y[row, j]
        grad_weight[j] = total


_rows = hetir.torch.op(
    "hetir_examples::rms_norm_rows",
    rms_norm_rows,
    outputs=lambda x, weight, grad_y: (torch.empty_like(x), x.new_empty(x.shape[0])),
    grid=rows,
    workgroup=GROUP,
)
_columns = hetir.torch.op(
    "hetir_examples::rms_norm_columns",
    rms_norm_columns,
    outputs=lambda x, grad_y, scale: x.new_empty(x.shape[1]),
    grid=lambda x, grad_y, scale: hetir.cdiv(x.shape[1], GROUP),
    workgroup=GROUP,
)


def _rms_norm_backward(inputs: Any, outputs: Any, grads: Any) -> Any:
    x, weight = inputs
    grad_x, scale = _rows(x, weight, grads[0])
    return grad_x, _columns(x, grads[0], scale)


rms_norm = hetir.torch.op(
    "hetir_examples::rms_norm",
    kernel("rms_norm"),
    outputs=lambda x, weight: torch.empty_like(x),
    grid=rows,
    workgroup=GROUP,
    backward=_rms_norm_backward,
    batch=["x"],
)

# ---- SwiGLU --------------------------------------------------------------------------------


@hetir.kernel
def swiglu_backward(a: Any, b: Any, grad_y: Any, grad_a: Any, grad_b: Any) -> None:
    """The gradients of silu(a) * b."""
    i = hl.global_id(0)
    if i < a.shape[0]:
        s = hl.sigmoid(a[i])
        grad_a[i] = grad_y[i] * b[i] * s * (1.0 + a[i] * (1.0 - s))
        grad_b[i] = grad_y[i] * a[i] * s


def _gate(a: Any, b: Any) -> Any:
    return hl.silu(a) * b


_swiglu_backward = hetir.torch.op(
    "hetir_examples::swiglu_backward",
    swiglu_backward,
    outputs=lambda a, b, grad_y: (torch.empty_like(a), torch.empty_like(b)),
    grid=lambda a, b, grad_y: hetir.cdiv(a.numel(), 256),
    workgroup=256,
)
swiglu = hetir.torch.kernel_from(_gate, "hetir_examples::swiglu", backward=_swiglu_backward)

# ---- rotary embedding ------------------------------------------------------------------------


def _turn_back(inputs: Any, outputs: Any, grads: Any) -> Any:
    return rotary(grads[0], inputs[1], -inputs[2]), None, None


rotary = hetir.torch.op(
    "hetir_examples::rotary",
    kernel("rotary"),
    outputs=lambda x, cosine, sine: torch.empty_like(x),
    grid=lambda x, cosine, sine: (
        hetir.cdiv(cosine.shape[1], 32), hetir.cdiv(x.shape[1], 4), x.shape[0],
    ),
    workgroup=(32, 4),
    backward=_turn_back,
)  # fmt: skip

# ---- attention -------------------------------------------------------------------------------


def _attention_backward(inputs: Any, outputs: Any, grads: Any) -> Any:
    """Computed again by PyTorch: the scores are not kept."""
    with torch.enable_grad():
        given = [t.detach().requires_grad_() for t in inputs]
        again = nn.functional.scaled_dot_product_attention(*given)
        return torch.autograd.grad(again, given, grads[0])


attention = hetir.torch.op(
    "hetir_examples::attention",
    kernel("flash_attention"),
    outputs=lambda q, k, v: torch.empty_like(q),
    grid=lambda q, k, v: (hetir.cdiv(q.shape[1], 64), q.shape[0]),
    workgroup=64,
    backward=_attention_backward,
)

# ---- cross entropy ---------------------------------------------------------------------------


@hetir.kernel
def cross_entropy_backward(
    logits: hl.Array[hl.f32, 2],
    labels: hl.Array[hl.i64, 1],
    grad_loss: hl.Array[hl.f32, 1],
    grad_logits: hl.Array[hl.f32, 2],
) -> None:
    """Softmax less one at the label, times the row's gradient."""
    row, lane, width = hl.group_id(0), hl.local_id(0), logits.shape[1]
    largest = hl.f32(float("-inf"))
    for j in range(lane, width, GROUP):
        largest = hl.maximum(largest, logits[row, j])
    largest = hl.workgroup_reduce(largest, "max")
    total = hl.f32(0)
    for j in range(lane, width, GROUP):
        total += hl.exp(logits[row, j] - largest)
    total = hl.workgroup_reduce(total, "add")
    for j in range(lane, width, GROUP):
        p = hl.exp(logits[row, j] - largest) / total
        hit = hl.f32(1) if j == labels[row] else hl.f32(0)
        grad_logits[row, j] = (p - hit) * grad_loss[row]


cross_entropy = hetir.torch.op(
    "hetir_examples::cross_entropy",
    kernel("cross_entropy"),
    outputs=lambda logits, labels: logits.new_empty(logits.shape[0]),
    grid=rows,
    workgroup=GROUP,
    backward=hetir.torch.op(
        "hetir_examples::cross_entropy_backward",
        cross_entropy_backward,
        outputs=lambda logits, labels, grad_loss: torch.empty_like(logits),
        grid=rows,
        workgroup=GROUP,
    ),
)

int8_matmul = hetir.torch.op(
    "hetir_examples::int8_matmul",
    kernel("int8_matmul"),
    outputs=lambda x, weight, scale: x.new_empty(x.shape[0], weight.shape[1]),
    grid=lambda x, weight, scale: (hetir.cdiv(weight.shape[1], 16), hetir.cdiv(x.shape[0], 16)),
    workgroup=(16, 16),
)

# ---- a block -----------------------------------------------------------------------------------

HEADS, DEPTH, LENGTH, WORDS = 2, 64, 24, 50


def angles() -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of the rotary embedding."""
    rate = 10_000.0 ** (-torch.arange(DEPTH // 2) / (DEPTH // 2))
    angle = torch.arange(LENGTH)[:, None] * rate
    return angle.cos(), angle.sin()


class Plain:
    """The functions of the block as PyTorch has them."""

    @staticmethod
    def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """RMSNorm."""
        return nn.functional.rms_norm(x, (x.shape[1],), weight, EPSILON)

    @staticmethod
    def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """SwiGLU."""
        return nn.functional.silu(a) * b

    @staticmethod
    def rotary(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """Rotary embedding."""
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    @staticmethod
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention."""
        return nn.functional.scaled_dot_product_attention(q, k, v)

    @staticmethod
    def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Cross entropy of each row."""
        return nn.functional.cross_entropy(logits, labels, reduction="none")


class Ours:
    """The same from hetir kernels."""

    rms_norm, swiglu, rotary = rms_norm, swiglu, rotary
    attention, cross_entropy = attention, cross_entropy


class Block(nn.Module):
    """Embedding, one transformer block, and the words' scores."""

    def __init__(self, functions: Any) -> None:
        super().__init__()
        width = HEADS * DEPTH
        self.f = functions
        self.embedding = nn.Embedding(WORDS, width)
        self.first, self.second = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.scores = nn.Linear(width, WORDS)

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean loss."""
        cosine, sine = angles()
        x = self.embedding(words)
        heads = self.qkv(self.f.rms_norm(x, self.first)).view(LENGTH, 3, HEADS, DEPTH)
        q, k, v = heads.permute(1, 2, 0, 3).contiguous().unbind(0)
        mixed = self.f.attention(self.f.rotary(q, cosine, sine), self.f.rotary(k, cosine, sine), v)
        x = x + self.out(mixed.transpose(0, 1).reshape(LENGTH, -1))
        a, b = self.up(self.f.rms_norm(x, self.second)).chunk(2, -1)
        x = x + self.down(self.f.swiglu(a, b))
        return self.f.cross_entropy(self.scores(x), labels).mean()


def train(functions: Any, steps: int = 6) -> list[float]:
    """The losses of a few steps on one sequence."""
    torch.manual_seed(0)
    block = Block(functions)
    words = torch.randint(WORDS, (LENGTH + 1,))
    optimiser = torch.optim.SGD(block.parameters(), lr=0.1)
    losses: list[float] = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = block(words[:-1], words[1:])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    """Train both, and compare."""
    ours, plain = train(Ours), train(Plain)
    for step, (a, b) in enumerate(zip(ours, plain, strict=True)):
        print(f"step {step}: loss {a:.6f} with hetir, {b:.6f} with PyTorch")
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(ours, plain, strict=True))


if __name__ == "__main__":
    main()
