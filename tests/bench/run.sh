#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs all benchmarks one after the other and writes into one folder: records.tsv (every figure), results.json and results.md
# (tables with the bars, ready for docs/measurements.md). benchlib.sh says what peers need and how they are named. Nothing else should
# run at the same time.
#
# usage: run.sh [--quick | --self-test] [--out DIR] [--rounds N] [--only-subject NAME]...
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=bench-results
subjects=()
pass=()
while [ $# -gt 0 ]; do
    case $1 in
    --quick | --self-test) pass+=("$1") ;;
    --out | --rounds | --only-subject)
        [ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; }
        case $1 in
        --out) out=$2 ;;
        --rounds) pass+=("$1" "$2") ;;
        --only-subject) subjects+=("$2") ;;
        esac
        shift
        ;;
    *) echo "usage: run.sh [--quick | --self-test] [--out DIR] [--rounds N] [--only-subject NAME]..." >&2; exit 2 ;;
    esac
    shift
done
[ ${#subjects[@]} -gt 0 ] || subjects=(gemm ops mlp language shakespeare resnet memory loader volumes host monitor gpu cluster)
program=${CLTRAIN:-$here/../../build/cltrain}
mkdir -p "$out" || exit 2
records=$(cd "$out" && pwd)/records.tsv
BENCH_TOOLS=$(mktemp -d) || exit 2
export BENCH_TOOLS
trap 'rm -rf "$BENCH_TOOLS"' EXIT
: >"$records"

about() { printf 'run\t-\t-\t%s\t-\t-\t%s\n' "$1" "$2" >>"$records"; }
about date "$(date -u +%FT%TZ)"
about processor "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
about instructions "$(grep -m 1 '^flags' /proc/cpuinfo | grep -o -w -E 'avx2|fma|avx512f|avx512_bf16|amx_tile' | tr '\n' ' ')"
about system "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), kernel $(uname -r)"
about program "$("$program" version 2>/dev/null | head -n 1)"
about device "$("$program" devices 2>/dev/null | head -n 1)"

failed=0
for subject in "${subjects[@]}"; do
    [ -f "$here/bench_$subject.sh" ] || { echo "run.sh: there is no bench_$subject.sh" >&2; exit 2; }
    echo "=== $subject"
    bash "$here/bench_$subject.sh" ${pass[@]+"${pass[@]}"} --records "$records" || failed=$((failed + 1))
done
"$here/report.sh" "$records" "$out/results.json" "$out/results.md" "Benchmarks, $(date -u +%F)" || exit 1
echo "wrote $out/results.json and $out/results.md"
[ "$failed" -eq 0 ] || { echo "$failed of ${#subjects[@]} subjects failed"; exit 1; }
