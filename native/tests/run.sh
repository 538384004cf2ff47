#!/usr/bin/env bash
# Builds the C runtime with its tests, plain and under each sanitizer, and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
flags=(-std=c11 -g -O1 -Wall -Wextra -Werror -pthread -I. -Itests)
for level in -O0 -O2; do
    gcc -std=c11 "$level" -fPIC -fno-stack-protector -Wall -Wextra -Werror -I. -Itests \
        -c tests/kernels.c -o "$out/kernels$level.o"
done
for sanitizer in ${1:-none address,undefined thread}; do
    extra=()
    [ "$sanitizer" = none ] || extra=("-fsanitize=$sanitizer" -fno-sanitize-recover=all)
    gcc "${flags[@]}" "${extra[@]}" ./*.c tests/test_runtime.c -lm -o "$out/test"
    for level in -O0 -O2; do
        for threads in 1 2 5; do
            echo "sanitizer $sanitizer, kernels $level, $threads threads"
            TSAN_OPTIONS=die_after_fork=0 HETIR_NUM_THREADS=$threads "$out/test" "$out/kernels$level.o"
        done
    done
done
