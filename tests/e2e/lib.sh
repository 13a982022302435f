# SPDX-License-Identifier: Apache-2.0
#
# What the end-to-end scripts share: checks that are counted, a temporary folder that is removed at the end, small data files made
# with printf. Sourced, never run. Needs only bash, coreutils, grep, sed and awk, and knows nothing of single commands.
#
# ctest sets CLTRAIN (the program), CLTRAIN_SOURCE_DIR, CLTRAIN_BUILD_DIR and CLTRAIN_MODULE_DIR.
declare -F expect_code >/dev/null && return 0 # a script sources several libraries that source this one
set -u
export LC_ALL=C
: "${CLTRAIN:?set it to the cltrain program}"
: "${CLTRAIN_SOURCE_DIR:?set it to the source folder}"

# all_cases: true in the test NAME_all of a script with "ctest-full: all". If it is false, a script leaves
# out slow cases that seldom fail.
part=${1:-}
all_cases() { [ "$part" = all ]; }

n_passed=0
n_failed=0
work=$(mktemp -d) || exit 1
out=$work/.out # standard output and standard error of the last command run by expect_code
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# --- time: no verdict depends on how fast the machine is (docs/layout.md, "Time in tests") ---
hang=${CLTRAIN_TEST_HANG:-$((2500 * ${CLTRAIN_TEST_PATIENCE:-1}))} # seconds after which a command must have hung: guard.sh
guarded() { timeout -k 10 "$hang" "$@"; }
# await_from PID COMMAND...: waits until the command succeeds because of what the process does. The test
# fails if the process ends or hangs before that.
await_from() {
    local process=$1 until=$((SECONDS + hang)) running=yes
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $running = no ]; then fail "process $process has ended without: $*"; return 1; fi
        if [ $SECONDS -ge "$until" ]; then fail "this did not happen in $hang s: $*"; return 1; fi
        [ "$process" -eq 0 ] || kill -0 "$process" 2>/dev/null || running=no # its last work is looked at once more
        sleep 0.02
    done
}
await() { await_from 0 "$@"; } # the same without a process
is_gone() { ! kill -0 "$1" 2>/dev/null; }
await_end() { await is_gone "$1"; } # until the process PID has ended
# has_updates RUN [N]: the run has written N steps (1) to its metrics.jsonl.
has_updates() { [ "$(grep -c '"update":' "$1/metrics.jsonl" 2>/dev/null)" -ge "${2:-1}" ]; }

pass() { n_passed=$((n_passed + 1)); }
fail() { # message; shows the last output
    n_failed=$((n_failed + 1))
    echo "FAIL: $1"
    [ -s "$out" ] && sed 's/^/    | /' "$out" | head -n 25
    return 0
}
skip_all() { echo "SKIP: $1"; exit 77; }
note_skip() { echo "SKIP: $1"; } # a part of a test; the prefix is what scripts/test.sh looks for
# need_lanes: the test needs a device whose products use style lanes, according to devices.json; else it is skipped.
need_lanes() {
    local code=0
    "$CLTRAIN" devices --json >devices.json 2>&1 || code=$?
    [ "$code" -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'
    grep -q '"wide_vectors"' devices.json || skip_all 'the device does not use products in lane style'
}
# no_binaries: kernels are built from source and not kept as binaries (tests/CMakeLists.txt), from here on.
no_binaries() {
    export CLTRAIN_PROGRAM_CACHE=auto
    [ -z "${POCL_EXTRA_BUILD_FLAGS:-}" ] || export POCL_EXTRA_BUILD_FLAGS=${POCL_EXTRA_BUILD_FLAGS% -DCLTRAIN_KEPT=1}
}
# need_shim: $shim is the bad driver of tests/fault/driver_shim.c, for LD_PRELOAD. It only sees programs
# that are built from source.
need_shim() {
    shim=$CLTRAIN_BUILD_DIR/tests/driver_shim.so
    [ -f "$shim" ] || skip_all 'driver_shim was not built'
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:detect_leaks=0
    no_binaries
}
finish() {
    echo "$n_passed passed, $n_failed failed"
    [ "$n_failed" -eq 0 ]
    exit
}

# clean_home: an empty home folder, as a new user has; only kernels that the driver has built for other tests are kept.
clean_home() {
    export POCL_CACHE_DIR=${POCL_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pocl/kcache} HOME=$work/home
    mkdir -p "$HOME"
}

# own_cache FOLDER: cltrain's cache folder from here on; a new folder contains the device's answers and the
# built programs of other tests, but no tuning records.
answered=${CLTRAIN_CACHE_DIR:-}
own_cache() {
    export CLTRAIN_CACHE_DIR=$1
    [ ! -e "$1" ] || return 0
    mkdir -p "$1"
    [ -z "$answered" ] || cp -r "$answered"/listing "$answered"/answers "$answered"/programs "$1"/ 2>/dev/null || true
}

# expect_code CODE COMMAND...: runs the command, keeps its output in $out, and checks that it ended with CODE. A crash always fails.
expect_code() {
    local want=$1 got
    shift
    guarded "$@" >"$out" 2>&1 </dev/null
    got=$?
    if grep -q -E 'AddressSanitizer|LeakSanitizer|runtime error:' "$out"; then
        fail "a sanitizer complains about: $*"
    elif [ "$got" -eq "$want" ]; then
        pass
    elif [ "$got" -eq 124 ]; then
        fail "it hangs, and was ended after $hang s: $*"
    else
        fail "code $got, expected $want: $*"
    fi
}

# expect_text PATTERN...: the last output matches each of these extended regular expressions.
expect_text() {
    local pattern
    for pattern in "$@"; do
        if grep -q -E -- "$pattern" "$out"; then pass; else fail "the output does not say: $pattern"; fi
    done
}
reject_text() {
    local pattern
    for pattern in "$@"; do
        if grep -q -E -- "$pattern" "$out"; then fail "the output says: $pattern"; else pass; fi
    done
}

# expect_absent PATH...: the path does not exist.
expect_absent() {
    local path
    for path in "$@"; do
        if [ -e "$path" ]; then
            fail "$path was left behind"
            find "$path" | head -n 5
        else
            pass
        fi
    done
}
expect_file() {
    local path
    for path in "$@"; do
        if [ -s "$path" ]; then pass; else fail "$path is missing or empty"; fi
    done
}
# expect_same A B: compares two files byte by byte.
expect_same() {
    local difference
    if difference=$(diff "$1" "$2"); then pass; else fail "$1 and $2 differ: $(head -n 20 <<<"$difference")"; fi
}
# expect_awk WHAT PROGRAM FILE...: awk's exit code decides.
expect_awk() {
    local what=$1 program=$2
    shift 2
    if awk "$program" "$@"; then pass; else fail "$what"; fi
}

# expect_blocked PROCESS NAME...: only the thread that handles these signals can be interrupted by them.
expect_blocked() {
    local process=$1 wanted=0 name task blocked open=
    shift
    for name in "$@"; do wanted=$((wanted | 1 << ($(kill -l "$name") - 1))); done
    for task in /proc/"$process"/task/*; do
        blocked=$(sed -n 's/^SigBlk:[[:space:]]*//p' "$task/status" 2>/dev/null)
        if [ -n "$blocked" ] && [ "$(cat "$task/comm")" != signals ] && [ $((0x$blocked & wanted)) -ne $wanted ]; then
            open="$open ${task##*/}:$blocked"
        fi
    done
    if [ -d "/proc/$process" ] && [ -z "$open" ]; then pass; else fail "threads of $process that do not block $*:${open:- no process}"; fi
}

# with_log RUN: the lines of the run's log.txt, without the clock, are part of the last output from here on.
with_log() { sed 's/^[^ ]* //' "$1/log.txt" >>"$out"; }

# values KEY FILE: the number behind a key in each line of metrics.jsonl that has it.
values() { sed -n -E "/^\{\"event\"/d; s/.*\"$1\": *(-?[0-9.]+([eE][-+]?[0-9]+)?).*/\1/p" "$2"; }

# numbers RUN: steps and evaluations of metrics.jsonl without values that depend on a clock or the machine.
numbers() {
    sed -E -e '/^\{"event"/d' \
        -e 's/,"(step_ms|samples_per_s|tokens_per_s|data_ms|comm_ms|comm_exposed_ms|device_busy|h2d_gbs|d2h_gbs|device_bytes|eval_seconds|time)":[^,}]*//g' \
        "$1/metrics.jsonl"
}

# tensor FILE NAME: the bytes of a tensor of a safetensors file, as text. NAME is an extended regular expression.
tensor() {
    local length offsets
    length=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    offsets=$(tail -c +9 "$1" | head -c "$length" | grep -oE "\"$2\":\{[^}]*\}" | sed -E 's/.*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2/')
    # shellcheck disable=SC2086
    set -- "$1" "$length" $offsets
    [ "$#" -eq 4 ] && tail -c +$((9 + $2 + $3)) "$1" | head -c $(($4 - $3)) | od -An -v -tx1
}

# be32 N: a big-endian 32-bit integer, as idx files have it.
be32() { printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
# bytes N SEED MODULUS: N pseudo-random bytes below MODULUS.
bytes() {
    awk -v n="$1" -v s="$2" -v m="$3" 'BEGIN {
        for (i = 0; i < n; i++) { s = (s * 1103515245 + 12345) % 2147483648; printf "\\x%02x", int(s / 65536) % m } }' |
        { IFS= read -r -d '' escaped || true; printf '%b' "$escaped"; }
}
# net KIND [SECTION.KEY=VALUE...]: prints a small config of this kind, with these values instead of its own or in addition. A value that
# is no number, list, object or word of JSON is a string.
#   mlp: classes from synthetic data    graph: the same data for model.layers=[...]
#   gpt: the bytes of a text            mse: numbers from a table
net() {
    local kind=$1 samples=(data.type=synthetic data.samples=500 'data.shape=[8]' data.classes=5 data.micro_batch=8)
    shift
    case $kind in
    mlp) set -- model.type=mlp 'model.hidden=[16]' "${samples[@]}" "$@" ;;
    graph) set -- model.type=graph "${samples[@]}" "$@" ;;
    gpt) set -- model.type=gpt model.layers=1 model.heads=2 model.channels=16 model.context=16 data.type=text data.path=text data.micro_batch=4 "$@" ;;
    mse) set -- model.type=mlp 'model.hidden=[8]' model.loss=mse data.type=csv data.path=t.csv data.micro_batch=2 "$@" ;;
    *) fail "net has no kind $kind"; return 1 ;;
    esac
    printf '%s\n' "$@" | awk '
        {
            key = substr($0, 1, index($0, "=") - 1); value = substr($0, length(key) + 2)
            if (value !~ /^(-?[0-9][-+.0-9eE]*|true|false|null|[[{"].*)$/) value = "\"" value "\""
            if (!(key in values)) keys[++n] = key
            values[key] = value
        }
        END {
            for (i = 1; i <= n; i++) {
                dot = index(keys[i], "."); section = substr(keys[i], 1, dot - 1)
                if (section in text) text[section] = text[section] ", "
                else sections[++m] = section
                text[section] = text[section] "\"" substr(keys[i], dot + 1) "\": " values[keys[i]]
            }
            for (i = 1; i <= m; i++) print (i == 1 ? "{" : " ") "\"" sections[i] "\": {" text[sections[i]] (i == m ? "}}" : "},")
        }'
}

# npy_header "<f4" "(4, 2)": version 1.0, padded so that the data starts at byte 128.
npy_header() {
    local text
    text=$(printf "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" "$1" "$2")
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$text"
}
# f32 VALUE...: little-endian floats of small numbers k/2^n, exactly.
f32() {
    awk 'function put(b) { printf "\\x%02x", b }
    BEGIN {
        for (i = 1; i < ARGC; i++) {
            x = ARGV[i] + 0; sign = 0; e = 127
            if (x < 0) { sign = 1; x = -x }
            if (x == 0) { put(0); put(0); put(0); put(0); continue }
            while (x >= 2) { x /= 2; e++ }
            while (x < 1) { x *= 2; e-- }
            m = int((x - 1) * 8388608 + 0.5)
            put(m % 256); put(int(m / 256) % 256); put((e % 2) * 128 + int(m / 65536)); put(sign * 128 + int(e / 2))
        } }' "$@" | { IFS= read -r -d '' escaped || true; printf '%b' "$escaped"; }
}
