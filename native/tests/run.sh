#!/usr/bin/env bash
# Builds the C runtime with its tests and runs them: plain, under each sanitizer, or for AArch64
# under qemu: run.sh ["none address,undefined thread aarch64"]. The last needs Debian's
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
warnings=(-Wall -Wextra -Werror)
for variant in ${1:-none address,undefined thread}; do
    cc=gcc start=() extra=() code=() forks=()
    case $variant in
    none) ;;
    # LLVM writes atomics in line, as this flag makes gcc do
    aarch64) cc=aarch64-linux-gnu-gcc code=(-mno-outline-atomics) \
        start=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
        forks=(no-fork) ;; # qemu-user cannot start threads in a forked child
    *) extra=("-fsanitize=$variant" -fno-sanitize-recover=all) ;;
    esac
    "$cc" -std=c11 -g -O1 -pthread "${warnings[@]}" "${extra[@]}" "${code[@]}" -I. -Itests \
        ./*.c tests/test_runtime.c -lm -o "$out/test"
    for level in -O0 -O2; do
        "$cc" -std=c11 "$level" -fPIC -fno-stack-protector "${warnings[@]}" "${code[@]}" \
            -I. -Itests -c tests/kernels.c -o "$out/kernels.o"
        for threads in ${HETIR_TEST_THREADS:-1 2 5}; do
            echo "$variant, kernels $level, $threads threads"
            TSAN_OPTIONS=die_after_fork=0 HETIR_NUM_THREADS=$threads \
                "${start[@]}" "$out/test" "$out/kernels.o" "${forks[@]}"
        done
    done
done
