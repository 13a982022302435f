# SPDX-License-Identifier: Apache-2.0
#
# What the benchmark scripts share: options, running and watching one side, medians over rounds, records, bars. Sourced, never run.
# Each script measures one subject, has the same options, and works without any peer: a missing peer is skipped with its reason.
# Needs bash, coreutils, awk, sed and a C compiler for the small helpers; Python only for PyTorch as a peer.
#
#   --quick        fewer sizes, rounds and peer settings
#   --self-test    tiny sizes, no peers, no bars: only that the script works
#   --rounds N     how often the sides take turns (default 3; medians over the rounds are reported)
#   --only WORD    only cases whose name contains WORD
#   --records FILE append the figures to FILE, for report.sh; lines of: subject, case, side, quantity, value, unit, setting
#
# Environment: CLTRAIN the program · BENCH_GATE a command put before every program that is timed (such as "taskset -c 0,1") ·
# BENCH_PYTHON, BENCH_PYTHON_OLD interpreters with PyTorch: a new one, and an old one that uses OpenBLAS · BENCH_LLMC a checkout of
# llm.c · BENCH_DLPRIM a checkout of dlprimitives, built in its folder "build" · BENCH_ALLOCATOR a malloc library to preload for PyTorch (default: jemalloc where installed) · BENCH_SETTINGS only peer
# settings whose name contains this · BENCH_THREADS (2) · BENCH_CACHE where peers may keep compiled kernels between runs.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
CLTRAIN=${CLTRAIN:-$root/build/cltrain}
threads=${BENCH_THREADS:-2}
subject=$(basename "$0" .sh)
subject=${subject#bench_}

quick=false self_test=false rounds= only= records=/dev/null
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=true ;;
    --self-test) self_test=true ;;
    --rounds | --only | --records)
        [ $# -ge 2 ] || { echo "$(basename "$0"): $1 needs a value" >&2; exit 2; }
        case $1 in
        --rounds) rounds=$2 ;;
        --only) only=$2 ;;
        --records) records=$2 ;;
        esac
        shift
        ;;
    *) echo "usage: $(basename "$0") [--quick] [--self-test] [--rounds N] [--only WORD] [--records FILE]" >&2; exit 2 ;;
    esac
    shift
done
if $self_test; then rounds=1; elif [ -z "$rounds" ]; then if $quick; then rounds=1; else rounds=3; fi; fi
[ -x "$CLTRAIN" ] || { echo "$(basename "$0"): there is no program '$CLTRAIN'; set CLTRAIN to it" >&2; exit 2; }

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cache=${BENCH_CACHE:-$work/cache}
tools=${BENCH_TOOLS:-$work} # compiled helpers; run.sh shares one folder among the subjects
samples=$work/samples # lines: case, side, quantity, value
: >"$samples"
failures=0

skip() { # peer, reason
    echo "SKIP $1: $2"
    record "-" "$1" skipped - - "$2"
}
# record CASE SIDE QUANTITY VALUE UNIT SETTING
record() { printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$subject" "$1" "$2" "$3" "$4" "$5" "${6:-}" >>"$records"; }
sample() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$samples"; } # CASE SIDE QUANTITY VALUE
wanted() { case $1 in *"$only"*) return 0 ;; *) return 1 ;; esac; }
calc() { awk "BEGIN { printf \"%.6g\", ($1) }"; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.6g\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
# middle CASE SIDE QUANTITY: median over the rounds; empty when there is none.
middle() { awk -F'\t' -v c="$1" -v s="$2" -v q="$3" '$1 == c && $2 == s && $3 == q { print $4 }' "$samples" | median; }
# json_number FILE KEY: the first number of that key in our pretty-printed JSON.
json_number() { sed -n -E "s/^ *\"$2\": ([-+.0-9eE]+),?\$/\\1/p" "$1" | head -n 1; }
json_line() { sed -n -E "s/.*\"$2\": *([-+.0-9eE]+)[,}].*/\\1/p" "$1" | tail -n 1; } # of a one-line object

# bar CASE "what" VALUE RELATION LIMIT: a line of the bar table. Never in a self-test, whose figures mean nothing.
bar() {
    local verdict
    if $self_test || [ -z "$3" ]; then return 0; fi
    verdict=$(awk -v v="$3" -v r="$4" -v l="$5" 'BEGIN { print (r == "<=" ? v <= l : v >= l) ? "met" : "missed" }')
    printf '  bar: %-62s %10.4g  %s %-6s %s\n' "$2" "$3" "$4" "$5" "$verdict"
    record "$1" bar "$2" "$3" "$4 $5" "$verdict"
}

# helper NAME [flags]: compiles NAME.c of this folder once; fails when it cannot be built.
helper() {
    local name=$1
    shift
    [ -x "$tools/$name" ] && return 0
    "${CC:-cc}" -O2 -D_GNU_SOURCE "$here/$name.c" -o "$tools/$name" "$@" 2>"$work/$name.log"
}
helper watch_run || { echo "$(basename "$0"): watch_run.c does not compile:" >&2; cat "$work/watch_run.log" >&2; exit 2; }

# watched WORD COMMAND...: runs it behind the gate; output in $work/out, costs in $first_s $wall_s $cpu_s $rss_mib.
watched() {
    local word=$1 code
    shift
    rm -f "$work/costs"
    # shellcheck disable=SC2086 # the gate is a command with arguments
    ${BENCH_GATE:-} "$tools/watch_run" "$work/costs" "$word" "$@" >"$work/out" 2>"$work/err"
    code=$?
    first_s=$(awk '$1 == "first_s" { print $2 }' "$work/costs" 2>/dev/null)
    wall_s=$(awk '$1 == "wall_s" { print $2 }' "$work/costs" 2>/dev/null)
    cpu_s=$(awk '$1 == "cpu_s" { print $2 }' "$work/costs" 2>/dev/null)
    rss_mib=$(awk '$1 == "peak_rss_mib" { print $2 }' "$work/costs" 2>/dev/null)
    return $code
}
# ours ARGUMENTS...: cltrain, or the end of the script: without our side there is nothing to compare.
own_env=() # a command before ours, such as env NAME=VALUE
ours() {
    watched step ${own_env[@]+"${own_env[@]}"} "$CLTRAIN" "$@" && return 0
    echo "FAIL: cltrain $*"
    tail -n 5 "$work/err" "$work/out"
    exit 1
}
# our_step CASE CONFIG [overrides, options]: one bench step; samples of its time, host time and memory.
our_step() {
    local name=$1 value key
    shift
    ours bench step "$@" --json "$work/step.json"
    for key in step_ms host_ms host_outside_opencl_ms device_busy build_s; do
        value=$(json_number "$work/step.json" "$key")
        [ -n "$value" ] && sample "$name" cltrain "$key" "$value"
    done
    sample "$name" cltrain peak_rss_mib "$rss_mib"
}
has_cpu_flag() { grep -q -m 1 -w "$1" /proc/cpuinfo; }
finish() {
    [ "$failures" -eq 0 ] || echo "$failures failed"
    [ "$failures" -eq 0 ]
    exit
}
