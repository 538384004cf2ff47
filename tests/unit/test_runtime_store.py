"""Artifacts survive the way to the cache and back; damaged bytes raise ValueError only."""

import random

import pytest

from hetir.artifact import Artifact, Layout, Resources, Site, Slot
from hetir.runtime import decode, encode
from hetir.source import Loc


def artifact(binary):
    slots = (
        Slot(offset=0, source=(0,), dtype="f32", ndim=None, reads=True, writes=False),
        Slot(offset=8, source=(1, "field"), dtype="bf16", ndim=2, reads=True, writes=True),
    )
    loc = Loc(file="k.py", line=3, col=1, end_line=3, end_col=9)
    inner = Loc(file="k.py", line=9, col=0, end_line=9, end_col=2, caller=loc)
    return Artifact(
        kernel="k",
        target="cpu",
        entry="k_1",
        text="text \u00e9 \0",
        binary=binary,
        layout=Layout(slots=slots, size=64),
        resources=Resources(shared_bytes=3, source="llvm"),
        workgroup=(1, 2, 3),
        sites=(Site(kind="print", format="{}", dtypes=("f32",), loc=inner),),
        reproducible=False,
        irreproducible_reason="because",
        key="abc",
    )


@pytest.mark.parametrize("binary", [None, b"", b"\0\1code"], ids=str)
def test_the_artifact_comes_back_equal(binary):
    made = artifact(binary)
    assert decode(encode(made)) == made
    assert encode(decode(encode(made))) == encode(made)


def test_what_an_artifact_cannot_hold_is_refused():
    from dataclasses import replace

    with pytest.raises(TypeError, match="`set`"):
        encode(replace(artifact(None), fences=({1},)))


def test_damaged_bytes_never_do_anything_else_than_raise_value_error():
    good, rng = encode(artifact(b"code")), random.Random(7)
    refused = 0
    for _ in range(3000):
        bad = bytearray(good[: rng.randrange(len(good) + 1)] if rng.random() < 0.2 else good)
        for _ in range(rng.randrange(1, 4)):
            if bad:
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            decode(bytes(bad))
        except ValueError:
            refused += 1
    assert refused > 1000
    for text in (b"[]", b'{"$":"os"}', b'{"$":"Slot"}', b"1", b"[" * 5000):
        with pytest.raises(ValueError, match="artifact"):
            decode(good[:4] + len(text).to_bytes(8, "little") + text)
