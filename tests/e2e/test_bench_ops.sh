#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 15
#
# `cltrain bench ops`: its judgements and exit codes, with bounds and records whose result does not depend on the machine. Actual
# speeds do not matter here. Output of a driver's compiler must not appear between the lines.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
ops() { # CODE OPTION...
    local want=$1
    shift
    expect_code "$want" "$CLTRAIN" bench ops --seconds 0.001 "$@"
}

# --- a first run, with nothing built before ---
mkdir pocl
POCL_CACHE_DIR=$work/pocl ops 0 -t 'dropout.gpt2' --kernels
expect_text '^device .*stream [0-9.]+ GB/s' '^dropout.gpt2 +forward .*%' '^  dropout_bwd ' '^dropout.gpt2 +backward '
reject_text 'warning'

# --- records ---
several='sc*.gpt2'
all_cases && several='s*.gpt2'
ops 0 -t "$several" --json now.json
record() { # FACTOR: the record with all its times multiplied
    awk -v f="$1" '/"ms": / { match($0, /[0-9.e+-]+,?$/); $0 = substr($0, 1, RSTART - 1) substr($0, RSTART) * f "," } { print }' \
        now.json >old.json
}
grep -q '"name": "scale.gpt2"' now.json && grep -q '"stream_share": ' now.json && grep -q '"ms": ' now.json &&
    pass || fail "the record lacks something"
record 1000 # all was far slower once
ops 0 -t "$several" --compare old.json
expect_text '0.[0-9]+x time +name "?scale.gpt2"? direction "?forward"?' ', 0 slower by more than 10 %, 0 not in that record'
reject_text 'SLOWER'
record 0.001
ops 1 -t 'scale.gpt2' --compare old.json
expect_text '^2 compared with .*, 2 slower by more than 10 %' 'scale.gpt2.*SLOWER'
ops 2 -t 'relu.gpt2' --compare now.json # in which it is not
expect_text 'none of its measurements was made in this run'
sed 's/"bench": "ops"/"bench": "gemm"/' now.json >old.json
ops 2 -t 'scale.gpt2' --compare old.json
expect_text "name a file that 'cltrain bench ops --json FILE' has written"
head -c 100 now.json >old.json
ops 2 -t 'scale.gpt2' --compare old.json

# --- --at-least: nothing reaches a hundred times the stream, everything a millionth of it ---
ops 0 -t 'scale.large' --at-least 0.0001 --json large.json
expect_text ' 0 of [0-9] memory-bound directions reach less than|^0 of [0-9] memory-bound directions'
limited=$(grep -c '"streams": true' large.json)
if [ "$limited" -gt 0 ]; then
    ops 1 -t 'scale.large' --at-least 1000
    expect_text 'TOO SLOW' "bench ops: $limited of $limited memory-bound directions reach less than 1000 % of the stream"
else
    note_skip "a cache of this device holds 'scale.large'"
fi
ops 0 -t 'scale.gpt2' --at-least 1000 # in the caches: not judged
expect_text '^0 of 0 memory-bound directions'

ops 2 -t 'nothing.large'
expect_text "no case matches 'nothing.large'"
finish
