#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# A driver that refuses the kernels of one variant (driver_shim.c), met by every command that runs plans: eval, generate, bench step, a
# resumed run whose checkpoint pins that variant, tune. All go on without it and say so; verify reports its cases as failed.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
unset CLTRAIN_GEMM
need_lanes
need_shim
export CLTRAIN_CACHE_DIR=$work/cache
export POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 # so that the record below fits, whatever cores the test may use
# Each command starts with a driver that is not known to refuse anything (test_unsupported.sh tests what is
# remembered).
env LD_PRELOAD="$shim" "$CLTRAIN" devices >/dev/null 2>&1
fresh() { rm -rf bad.cache; cp -r cache bad.cache; }
bad() { # CODE RULES COMMAND...: as expect_code, on the bad driver, which must have struck
    local code=$1 rules=$2
    shift 2
    rm -f shim.log
    fresh
    expect_code "$code" env CLTRAIN_CACHE_DIR="$work/bad.cache" CLT_SHIM="$rules;log=$work/shim.log" LD_PRELOAD="$shim" "$@"
    expect_file shim.log
}
lane=build:family=gemm_lane:error
without="continues without variant 'lane'"

awk 'BEGIN { for (i = 0; i < 400; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 16},
 "data": {"type": "text", "path": "text", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.002}, "train": {"steps": 12, "log_every": 1}, "checkpoint": {"every": 6}}
JSON
expect_code 0 "$CLTRAIN" train gpt.json --out good

# eval and generate read a good checkpoint
expect_code 0 "$CLTRAIN" eval gpt.json --checkpoint good --json good.json
bad 0 "$lane" "$CLTRAIN" eval gpt.json --checkpoint good --json bad.json
expect_text "$without"
paste <(values loss good.json) <(values loss bad.json) >both
expect_awk 'evaluation gives another loss' '{ d = $1 - $2; if (NF != 2 || d > 1e-4 || d < -1e-4) bad = 1 } END { exit bad || NR < 1 }' both
"$CLTRAIN" generate --checkpoint good --prompt 'line 1' --max-new 12 --temperature 0 >good.text 2>/dev/null
simple=build:family=gemm+option=-DVW=16:error # one token has no products for the lane form
bad 0 "$simple" "$CLTRAIN" generate --checkpoint good --prompt 'line 1' --max-new 12 --temperature 0
expect_text 'continues without capability wide_vectors'
fresh
env CLTRAIN_CACHE_DIR="$work/bad.cache" CLT_SHIM="$simple" LD_PRELOAD="$shim" "$CLTRAIN" generate --checkpoint good --prompt 'line 1' --max-new 12 --temperature 0 >bad.text 2>/dev/null
expect_same good.text bad.text
bad 0 'launch:family=gemm+option=-DVW=16:dead' "$CLTRAIN" generate --checkpoint good --prompt 'line 1' --max-new 4 --temperature 0
expect_text 'continues without capability wide_vectors'
bad 0 "$lane" "$CLTRAIN" bench step gpt.json --steps 2 --warmup 1
expect_text "$without"

# the same choice each time
for run in one two; do
    bad 0 "$lane" "$CLTRAIN" train gpt.json --out "$run"
done
expect_same one/checkpoints/step_12/model.safetensors two/checkpoints/step_12/model.safetensors

# A checkpoint that pins the refused variant: its choices are ignored with a warning, and training goes on as it would have.
"$CLTRAIN_BUILD_DIR/tests/put_record" 'NT m=64 n=48 k=16 batch=1 f32*f32->f32 +bias' lane mr=6 nv=2 >/dev/null 2>&1
expect_code 0 "$CLTRAIN" train gpt.json --out pinned --max-steps 6
with_log pinned
expect_text '[1-9] of [0-9]+ problems tuned'
bad 0 "$lane" "$CLTRAIN" train gpt.json --out pinned --resume auto
expect_text "$without" '[1-9] tuning choice.*of the checkpoint use a feature that the driver refused and are ignored' 'resumed'
paste <(values loss good/metrics.jsonl) <(values loss pinned/metrics.jsonl) >both
expect_awk 'losses of the resumed run differ' '{ d = $1 - $2; if (NF != 2 || d > 1e-4 || d < -1e-4) bad = 1 } END { exit bad || NR < 12 }' both
# Too short a time for most problems, which keep the lane form.
bad 0 "$lane" "$CLTRAIN" train gpt.json device.tune=on device.tune_seconds=0.1 --out tuned
expect_text "$without"

# verify hides nothing: the variant's cases fail, the others pass
bad 1 "$lane" "$CLTRAIN" verify -t 'gemm*lane*' --small --shard 1/20
expect_text 'FAIL.*lane'

# nothing is left to try: the error says what was tried
bad 4 'build:family=colsum:error' "$CLTRAIN" train gpt.json --out never
expect_text 'there is no alternative' 'colsum' 'source saved in'
finish
