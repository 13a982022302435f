#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 15
#
# What a run reports, and where: only the record for other programs is printed to the standard output, a record can be compared with
# itself, log.level decides what stderr and log.txt get, a run folder that exists is refused before anything is built, and the
# start-up table says which storage type and which capabilities are used, and why.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset CLTRAIN_GEMM CLTRAIN_LOG
own_cache "$work/cache"
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device'

net mlp 'model.hidden=[8]' data.samples=16 data.classes=2 train.steps=2 checkpoint.final=false >net.json

# --- "--json -": only one object on the standard output, tables on stderr ---
only_json() { # COMMAND...: its standard output is $out, its stderr .err
    guarded "$@" >"$out" 2>.err </dev/null
    if [ $? -eq 0 ]; then pass; else fail "failed: $*"; cat .err; fi
    if [ "$(head -c 1 "$out")" = '{' ] && [ "$(tail -n 1 "$out")" = '}' ] && [ "$(grep -c '^[{}]$' "$out")" -eq 2 ]; then
        pass
    else
        fail "more than a record on the standard output: $*"
    fi
    if [ -s .err ]; then pass; else fail "the table should be on stderr: $*"; fi
}
only_json "$CLTRAIN" bench gemm --sizes 16,8x16x24 --seconds 0.01 --json -
cp "$out" gemm.json
only_json "$CLTRAIN" bench step net.json --steps 2 --warmup 1 --json -
cp "$out" step.json
only_json "$CLTRAIN" bench memory --seconds 0.1 --json -
cp "$out" memory.json
only_json "$CLTRAIN" verify --small --mode correct -t 'relu*' --json -
only_json "$CLTRAIN" tune net.json --seconds 0.2 --json -

# --- the cost of building: every program with its seconds and origin; a second start finds all of them in the cache ---
built() { # ORIGIN
    CLTRAIN_BUILDERS=1 CLTRAIN_PROGRAM_CACHE=on guarded "$CLTRAIN" bench step net.json --steps 1 --warmup 1 --json kept.json >"$out" 2>&1 </dev/null
    cp kept.json "$out"
    local all
    all=$(grep -c '"family": ' "$out")
    expect_text "\"built\": $all,"
    if [ "$all" -ge 3 ] && [ "$(grep -c "\"from\": \"$1\"" "$out")" -eq "$all" ]; then pass; else fail "not all of $all programs from the $1"; fi
}
rm -rf cache/programs # of other tests
built source
expect_text '"from_cache": 0,'
built cache
expect_text '"binaries_refused": 0,'

# --- a record matches the rows of another record of the same kind; their ratio does not matter (0 or 1) ---
compared() { # RECORD COMMAND...
    local record=$1
    shift
    guarded "$@" --compare "$record" >"$out" 2>&1 </dev/null
    if [ $? -le 1 ]; then pass; else fail "cannot be compared: $*"; fi
    expect_text "[1-9][0-9]* compared with $record, [0-9]+ slower .*, 0 not in that record"
}
compared gemm.json "$CLTRAIN" bench gemm --sizes 16,8x16x24 --seconds 0.01
compared step.json "$CLTRAIN" bench step net.json --steps 2 --warmup 1
compared memory.json "$CLTRAIN" bench memory --seconds 0.1
if all_cases; then # test_bench_ops.sh compares as well
    expect_code 0 "$CLTRAIN" bench ops -t 'relu*' --seconds 0.01 --json ops.json
    compared ops.json "$CLTRAIN" bench ops -t 'relu*' --seconds 0.01
fi

# --- log.level: stderr and log.txt; on stderr CLTRAIN_LOG overrides it ---
warned='precision.matmul tf32: device .* has no matrix units'
train() { expect_code 0 "$CLTRAIN" train net.json "$@"; }
train --out info precision.matmul=tf32 --caps=-mma_tf32
expect_text "^warning: $warned"
cp info/log.txt "$out"
expect_text "warning: $warned" 'device +' 'tuning +'
reject_text 'debug: '
train --out error precision.matmul=tf32 --caps=-mma_tf32 log.level=error
reject_text "$warned"
cp error/log.txt "$out"
expect_text 'device +'
reject_text "$warned"
train --out debug log.level=debug
expect_text '^debug: device .*: capabilities '
cp debug/log.txt "$out"
expect_text 'debug: device .*: capabilities '
expect_code 0 env CLTRAIN_LOG=error "$CLTRAIN" train net.json --out both log.level=debug
reject_text 'debug: '
cp both/log.txt "$out"
expect_text 'debug: device '

# --- a folder that exists ---
expect_code 2 "$CLTRAIN" train net.json --out info
expect_text "run folder 'info' holds an earlier run .*--resume auto"
reject_text 'building kernels' '^tuning'

# --- the start-up table ---
train --out auto precision.mode=auto --caps=-mma_f16,-mma_bf16,-mma_f16_k8,-wmma_f16
expect_text '^precision +f32 storage \(auto: the device has no matrix units for 16 bits\), f32 arithmetic$'
reject_text '^hint '
CLTRAIN_EMULATE=mma_bf16,mma_tf32 train --out idle
expect_text '^hint +matrix units are not used: precision.mode=auto chooses bf16, .*; precision.matmul=tf32 keeps f32 storage'
if all_cases; then
    CLTRAIN_EMULATE=mma_tf32 train --out idle_tf32
    expect_text '^hint +matrix units for tf32 are not used: precision.matmul=tf32'
fi
CLTRAIN_EMULATE=mma_tf32 train --out used_tf32 precision.matmul=tf32
reject_text '^hint '
train --out plain --caps=none
expect_text '^device +.* compute units?; masked: '
with_log plain
expect_text '^capabilities +no optional capability$'
finish
