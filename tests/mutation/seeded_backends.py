"""Faults in what the backends write, and in the table of orders that they write from."""

from __future__ import annotations

from tests.mutation.fault import Fault

_LLVM = "backends/llvm/rules.py"
_SPIRV = "backends/spirv/rules.py"
_FRAME = "backends/ptx/frame.py"

BACKENDS: tuple[Fault, ...] = (
    # ---- LLVM: the CPU (and PTX)
    Fault("signed shifts fill with zeros", "wrong signedness", _LLVM,
          '"ashr" if kind.signed else "lshr"', '"lshr"', "cpu ops"),
    Fault("the high half is of unsigned factors", "wrong signedness", _LLVM,
          'extend = "sext" if kind.signed else "zext"', 'extend = "zext"', "cpu ops"),
    Fault("a quotient by zero is not zero", "lost case", _LLVM,
          'return code.add(f"select {flag} {zero}, {wide} {nought}, {wide} {result}")',
          "return result", "cpu ops"),
    Fault("shift counts keep one bit too many", "wrong modulus", _LLVM,
          "code.number(scalar, kind.bits - 1)", "code.number(scalar, 2 * kind.bits - 1)",
          "cpu ops"),
    Fault("ties round away from zero", "wrong rounding", _LLVM, '_C("roundeven")', '_C("round")',
          "cpu ops"),
    Fault("unsigned numbers compare by sign", "wrong signedness", _LLVM,
          '_compare("slt", "ult", "olt")', '_compare("slt", "slt", "olt")', "cpu ops"),
    Fault("NaN equals", "NaN forgotten", _LLVM, '_compare("ne", "ne", "une")',
          '_compare("ne", "ne", "one")', "cpu ops"),
    Fault("the bits of a NaN are its own", "NaN not made canonical", _LLVM,
          'return code.add(f"select {flag} {nan}, {raw} {canonical}, {raw} {value}")',
          "return value", "cpu ops"),
    Fault("a minimum drops NaN", "NaN forgotten", _LLVM, '{"min": _C("minimum"),',
          '{"min": _C("minnum"),', "cpu ops"),
    Fault("unsigned integers widen by sign", "wrong signedness", _LLVM,
          'mnemonic = "trunc" if b.bits < a.bits else "sext" if a.signed else "zext"',
          'mnemonic = "trunc" if b.bits < a.bits else "sext"', "cpu ops"),
    Fault("floats saturate at signed bounds", "wrong signedness", _LLVM,
          '"fptosi.sat" if signed else "fptoui.sat"', '"fptosi.sat"', "cpu ops"),
    Fault("a range by steps counts one turn less", "off-by-one tail", "backends/llvm/structure.py",
          'count = code.add(f"add {kind} {steps}, {one}")',
          'count = code.add(f"add {kind} {steps}, {nought}")', "cpu"),
    Fault("a loop's results are its last turn's before", "lost update",
          "backends/llvm/structure.py",
          "nexts = self._latch(again, carried)\n",
          "nexts = self._latch(again, carried) and tuple(self.local[v] for v in carried)\n",
          "cpu"),
    Fault("all lanes of the last vector are on", "off-by-one tail", "backends/cpu/emit.py",
          "tail = bool(sx * sy * sz % width)", "tail = False", "cpu"),
    # ---- PTX
    Fault("a stride is an extent", "wrong stride", _FRAME,
          "offset = slot.offset + 8 + 8 * (slot.ndim + axis)",
          "offset = slot.offset + 8 + 8 * axis", "ptx ops"),
    Fault("shared arrays lie on each other", "wrong place", _FRAME,
          "places[op.result], end = start, start + array_bytes(op.result.type)",
          "places[op.result], end = 0, start + array_bytes(op.result.type)", "ptx"),
    Fault("every workgroup is the first", "wrong place", _FRAME,
          "{self.special('ctaid', axis)}, {self.group_size(axis)}", "0, {self.group_size(axis)}",
          "ptx ops"),
    Fault("a bool in memory is its inverse", "wrong sense", "backends/ptx/memory.py",
          'return self.code.add(f"icmp ne i8 {value}, 0") if element.kind == "bool" else value',
          'return self.code.add(f"icmp eq i8 {value}, 0") if element.kind == "bool" else value',
          "ptx ops"),
    # ---- SPIR-V
    Fault("OpenCL: signed shifts fill with zeros", "wrong signedness", _SPIRV,
          'right = "OpShiftRightArithmetic" if kind.signed else "OpShiftRightLogical"',
          'right = "OpShiftRightLogical"', "opencl ops"),
    Fault("OpenCL: the lesser unsigned is the lesser signed", "wrong signedness", _SPIRV,
          'sign = "S" if _kind(op).signed else "U"\n    way', 'sign = "S"\n    way',
          "opencl ops"),
    Fault("OpenCL: -0 is not less than +0", "wrong sign of zero", _SPIRV,
          'merged = code.add("OpBitwiseOr" if least else "OpBitwiseAnd", raw, *bits)',
          'merged = code.add("OpBitwiseAnd", raw, *bits)', "opencl ops"),
    Fault("OpenCL: unsigned integers widen by sign", "wrong signedness", _SPIRV,
          "widens = to.bits > kind.bits and kind.signed", "widens = to.bits > kind.bits",
          "opencl ops"),
    Fault("OpenCL: x % 0 is x", "lost case", _SPIRV,
          'result = code.add(opcode, wide, a, divisor)\n    if op.name == "rem":\n'
          "        return result",
          'result = code.add(opcode, wide, a, divisor)\n    if op.name == "rem":\n'
          "        return divisor", "opencl ops"),
    Fault("OpenCL: workgroups do not meet", "missing barrier", "backends/spirv/memory.py",
          "for step in lookup(target, Kind.BARRIER, Order.ACQ_REL, Scope.WORKGROUP).steps:",
          "for step in lookup(target, Kind.BARRIER, Order.ACQ_REL, Scope.WORKGROUP).steps[:0]:",
          "opencl"),
    Fault("Vulkan: the high word counts twice", "swapped operands", _SPIRV,
          'return code.add("OpUConvert", code.int(32), value), code.add("OpUConvert", code.int(32),'
          " high)",
          'return code.add("OpUConvert", code.int(32), high), code.add("OpUConvert", code.int(32),'
          " high)", "vulkan ops"),
    Fault("Vulkan: narrow numbers have 32 leading zeros", "wrong width", _SPIRV,
          'less = code.add("OpISub", word, count, code.number(32, 32 - bits))', "less = count",
          "vulkan ops"),
    # ---- Ascend
    # ---- orders
    Fault("PTX: acquire loads are relaxed", "weaker order", "memory/lowering/ptx.py",
          "return Step(part=Part.ACCESS, text=text, order=order, scope=wide)\n\n\ndef _ptx_red",
          "return Step(part=Part.ACCESS, text=text, order=Order.RELAXED, scope=wide)"
          "\n\n\ndef _ptx_red", "ptx orders"),
    Fault("PTX: fences below sm_90 emit nothing", "weaker order", "memory/lowering/ptx.py",
          "emitted = Order.ACQ_REL", "return ()", "ptx orders"),
    Fault("AArch64: release stores are plain", "weaker order", "memory/lowering/cpu.py",
          'Order.RELEASE: ("stlr", frozenset({"L"})),', 'Order.RELEASE: ("str", frozenset()),',
          "aarch64 orders"),
    Fault("Vulkan: nothing is made visible", "weaker order", "memory/lowering/spirv.py",
          'tags.add("semvis")', 'tags.discard("semvis")', "vulkan orders"),
    Fault("OpenCL: fences order one memory", "wrong scope", "memory/lowering/spirv.py",
          '_BOTH_REGIONS = frozenset({"global", "local"})', '_BOTH_REGIONS = frozenset({"local"})',
          "opencl orders"),
)  # fmt: skip
