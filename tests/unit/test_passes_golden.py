"""Each pass on a small kernel written by hand, with the whole expected output."""

from hetir.ir.text import parse_module, print_kernel
from hetir.ir.verify import verify
from hetir.passes.control import control
from hetir.passes.cse import cse
from hetir.passes.dce import dce
from hetir.passes.fold import fold
from hetir.passes.identities import identities
from hetir.passes.inline import inline
from hetir.passes.licm import licm
from hetir.passes.lower_exits import lower_exits
from hetir.passes.scalars import scalars
from hetir.passes.select import if_to_select
from hetir.passes.simplify import simplify
from hetir.passes.strength import strength
from hetir.passes.unroll import unroll

PASSES = {
    "control": control,
    "cse": cse,
    "dce": dce,
    "fold": fold,
    "identities": identities,
    "licm": licm,
    "lower_exits": lower_exits,
    "scalars": scalars,
    "select": if_to_select,
    "simplify": simplify,
    "strength": strength,
    "unroll": unroll,
}
SEPARATOR = "// ---- gives\n"


def test_golden(golden):
    files = golden.files("passes/*.hir")
    covered = set()
    for path in files:
        head, _, rest = path.read_text(encoding="utf-8").partition("\n")
        name = head.removeprefix("// pass: ")
        before, _, expected = rest.partition(SEPARATOR)
        module = parse_module(f"hetir 1\n{before}", str(path))
        verify(module)
        after = inline(module)
        if name != "inline":
            after = PASSES[name](after)
        verify(after)
        covered.add(name)
        actual = print_kernel(after, locations=False)
        if golden.update:
            path.write_text(f"{head}\n{before}{SEPARATOR}{actual}", encoding="utf-8")
        else:
            assert actual == expected, path
    assert covered == {*PASSES, "inline"}


def test_passes_give_the_same_kernel_where_they_change_nothing(golden):
    for path in golden.files("passes/*.hir"):
        _, _, rest = path.read_text(encoding="utf-8").partition("\n")
        before, _, _ = rest.partition(SEPARATOR)
        kernel = simplify(inline(parse_module(f"hetir 1\n{before}", str(path))))
        for name, one in PASSES.items():
            if name != "lower_exits":
                assert one(kernel) is kernel, (name, path)
