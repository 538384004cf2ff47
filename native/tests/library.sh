#!/usr/bin/env bash
# Builds the C library with its tests under sanitizers and runs them:
# library.sh FILE.hetbin ["none address,undefined thread aarch64" [MUTATIONS]], the file made by
# `hetir build library_kernels.py --target cpu:x86-64 --target cpu:x86-64-v3 --target cpu:aarch64
#  --signature "scaled: 3, f32[::1]" --signature "scaled: 0.5, f32[::1]"`.
set -euo pipefail
hetbin=$(realpath "$1")
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
runtime=(external.c job.c object.c pool.c relocate.c scratch.c)
for variant in ${2:-none address,undefined thread}; do
    cc=gcc extra=() start=()
    case $variant in
    none) ;;
    aarch64) cc=aarch64-linux-gnu-gcc start=(qemu-aarch64 -L /usr/aarch64-linux-gnu) ;;
    *) extra=("-fsanitize=$variant" -fno-sanitize-recover=all) ;;
    esac
    "$cc" -std=c11 -g -O1 -pthread -Wall -Wextra -Werror "${extra[@]}" -Iinclude -I. -Ilibrary \
        library/*.c "${runtime[@]}" tests/test_library.c -lm -ldl -o "$out/test"
    for level in 4 1; do
        [ "$variant $level" != "aarch64 1" ] || continue
        echo "$variant, x86-64 up to level $level"
        HETIR_LIBCUDA=none HETIR_LIBOPENCL=none HETIR_CPU_LEVEL=$level \
            "${start[@]}" "$out/test" "$hetbin" "${3:-2000}"
    done
done
