#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 60 ctest-optimise: no
#
# Half precision as users run it: the losses of several ranks stay close to those of one rank, with the same
# loss scale; bits that must not change (recomputation, resuming after a stop and after a kill, a second
# run); gradients communicated in 16 bits; the message names the rank with the first tensor that is not
# finite; an error if the devices of ranks would use different types; evaluation and generation from such a
# run.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

# near WHAT LIMIT RUN_A RUN_B: compares the losses of two runs at every step; on average they must be within a quarter of the limit.
near() {
    local apart
    apart=$(paste <(values loss "$3/metrics.jsonl") <(values loss "$4/metrics.jsonl") | awk -v limit="$2" '
        NF != 2 { print "of different length"; bad = 1; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; mean += d }
        END { if (!bad && (NR == 0 || worst > limit || mean / NR > limit / 4)) print NR " losses, worst " worst ", mean " mean / NR }')
    if [ -z "$apart" ]; then pass; else fail "$1: $apart (limit $2)"; fi
}
same_scales() {
    local key
    for key in update loss_scale skipped lr; do
        if cmp -s <(values $key "$1/metrics.jsonl") <(values $key "$2/metrics.jsonl"); then pass; else fail "$key of $1 and $2 differ"; fi
    done
}
# equal RUN_A RUN_B STEP: compares the bits.
equal() {
    expect_same "$1/checkpoints/step_$3/model.safetensors" "$2/checkpoints/step_$3/model.safetensors"
    expect_same "$1/checkpoints/step_$3/optimizer.safetensors" "$2/checkpoints/step_$3/optimizer.safetensors"
}
differ() {
    if cmp -s "$1/checkpoints/step_$3/model.safetensors" "$2/checkpoints/step_$3/model.safetensors"; then
        fail "$1 and $2 should not be equal"
    else
        pass
    fi
}

# The kernels of this backend are compiled quickly; the long run uses the engine's choice.
all_cases || export CLTRAIN_GEMM=simple
# several WORD...: all of the words; in the short run only the first.
several() { if all_cases; then echo "$@"; else echo "$1"; fi; }

write_text
# The scale starts so high that gradients overflow, and grows after every third good step.
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 2, "heads": 3, "channels": 15, "context": 19, "dropout": 0.1},
 "data": {"type": "text", "path": "text", "micro_batch": 3, "global_batch": 12},
 "optimizer": {"type": "adamw", "learning_rate": 0.002, "clip": 1},
 "schedule": {"type": "cosine", "warmup": 5, "min_learning_rate": 0.0002},
 "precision": {"mode": "f16", "loss_scale": 268435456, "growth_interval": 3}, "train": {"steps": 24}}
JSON
train=("$CLTRAIN" train gpt.json)

# --- ranks and accumulation ---
expect_code 0 "${train[@]}" --out one
expect_code 0 "${train[@]}" --out again
expect_text '^precision +f16 storage, f32 arithmetic, dynamic loss scale 2.68'
equal one again 24
skipped=$(values skipped one/metrics.jsonl | tail -n 1)
if [ "$skipped" -ge 1 ] && [ "$skipped" -lt 16 ]; then pass; else fail "$skipped skipped steps: the scale should have moved"; fi
for ranks in $(several 2 4); do
    expect_code 0 "${mpi[@]}" "$ranks" "${train[@]}" --out "ranks$ranks"
    same_scales one "ranks$ranks"
    near "$ranks ranks" 8e-3 one "ranks$ranks"
done
expect_code 0 "${mpi[@]}" 2 "${train[@]}" --out twice
equal ranks2 twice 24

# --- what may not change a bit ---
for tier in $(several block gelu); do
    expect_code 0 "${mpi[@]}" 2 "${train[@]}" train.recompute="$tier" --out "$tier"
    equal ranks2 "$tier" 24
done
expect_code 0 "${mpi[@]}" 2 "${train[@]}" --out parts --max-steps 11
sed -i '/"gradients"/d' parts/config.resolved.json # as a program wrote it that did not know the key
expect_code 0 "${mpi[@]}" 2 "${train[@]}" --out parts --resume auto
equal ranks2 parts 24
same_scales ranks2 parts
# Killed after the tenth step, at any point of a run that does not end by itself.
long=("${train[@]}" checkpoint.every=2 train.steps=1000000)
"${long[@]}" --out killed >"$out" 2>&1 &
victim=$!
await_from $victim saved_after killed 9
kill -9 $victim
wait $victim 2>/dev/null
[ $? -eq 137 ] || fail 'the run had ended before it was killed'
last=$(($(sed -n 's/^{"step":\([0-9]*\),"update.*}$/\1/p' killed/metrics.jsonl | tail -n 1) + 8))
expect_code 0 "${long[@]}" --out killed --resume auto --max-steps $last
expect_text 'resumed from killed/checkpoints/step_'
expect_code 0 "${long[@]}" --out whole --max-steps $last
equal whole killed $last
same_scales whole killed
if all_cases; then # Measured variants are kept by the run that goes on. What is measured in a second is as much as the machine can.
    expect_code 0 "${train[@]}" device.tune=on device.tune_seconds=1 --out tuned
    near 'tuned' 8e-3 one tuned
    expect_code 0 "${train[@]}" device.tune=on device.tune_seconds=1 --out tuned_parts --max-steps 9
    expect_code 0 "${train[@]}" device.tune=off --out tuned_parts --resume auto
    expect_code 0 "${train[@]}" --out tuned_whole # by the same records, and measures nothing
    with_log tuned_whole
    expect_text '^tuning +[1-9][0-9]* of'
    reject_text 'measured for'
    equal tuned_whole tuned_parts 24
fi

# --- gradients in 16 bits between ranks; a scale at which nothing overflows, not even sums in f16 ---
calm=("${train[@]}" precision.loss_scale=256)
expect_code 0 "${calm[@]}" --out calm
wide=$(values comm_bytes ranks2/metrics.jsonl | tail -n 1)
for type in f16 bf16; do
    for ranks in $(several 2 4); do
        expect_code 0 "${mpi[@]}" "$ranks" "${calm[@]}" parallel.gradients=$type --out "wire_$type$ranks"
        near "$type between $ranks ranks" 4e-2 calm "wire_$type$ranks"
        same_scales calm "wire_$type$ranks"
    done
    narrow=$(values comm_bytes wire_${type}2/metrics.jsonl | tail -n 1)
    # in both runs losses are f32 and rows of the embedding f16
    if [ "$((narrow * 100))" -lt "$((wide * 51))" ]; then pass; else fail "$narrow bytes in $type, $wide in f32"; fi
done
expect_code 0 "${mpi[@]}" 2 "${calm[@]}" --out calm2
differ calm2 wire_f162 24
differ calm2 wire_bf162 24
if all_cases; then
    expect_code 0 "${mpi[@]}" 2 "${calm[@]}" parallel.gradients=bf16 --out wire_again --max-steps 13
    expect_code 0 "${mpi[@]}" 2 "${calm[@]}" parallel.gradients=bf16 parallel.bucket_mb=0.004 parallel.shared_memory=false --out wire_again --resume auto
    equal wire_bf162 wire_again 24
fi
single=(precision.mode=f32 precision.loss_scale=65536 precision.growth_interval=2000)
if all_cases; then
    expect_code 0 "${mpi[@]}" 2 "${train[@]}" "${single[@]}" parallel.gradients=bf16 --out wire_f32
    near 'bf16 between ranks, f32 in them' 4e-2 calm wire_f32
fi
expect_code 2 "${mpi[@]}" 2 "${train[@]}" "${single[@]}" parallel.gradients=f16 --out never
expect_text 'parallel.gradients: f16 loses small gradients'
expect_code 2 "${mpi[@]}" 2 "${train[@]}" parallel.gradients=bf16 --out ranks2 --resume auto
expect_text 'parallel.gradients: was .?f32.?, is .?bf16'

# --- the first bad tensor, on the rank that has it ---
# put_npy FILE ROWS COLUMNS: f32, all zero.
put_npy() {
    npy_header '<f4' "($2, $3)" >"$1"
    head -c $(($2 * $3 * 4)) /dev/zero >>"$1"
}
put_npy x.npy 16 5 && put_npy y.npy 16 2
# One element of row 6 is 1e30.
printf '\xca\xf2\x49\x71' | dd of=x.npy bs=1 seek=$((128 + 6 * 20)) conv=notrunc status=none
cat >mse.json <<'JSON'
{"model": {"type": "mlp", "hidden": [6], "outputs": 2, "loss": "mse"},
 "data": {"type": "npy", "path": "x.npy", "targets": "y.npy", "micro_batch": 2, "global_batch": 8, "shuffle": false},
 "precision": {"mode": "f16"}, "train": {"steps": 9, "max_nonfinite": 1}}
JSON
expect_code 6 "$CLTRAIN" train mse.json --out bad1
expect_text "step 1: .*for 1 step in a row.*first bad tensor: tensor 'x.f16' .*in micro-batch 4 of 4"
expect_code 6 "${mpi[@]}" 2 "$CLTRAIN" train mse.json --out bad2
expect_text "step 1: .*first bad tensor \(rank 1\): tensor 'x.f16'"
reject_text 'first bad tensor: none'
# With rank_invariant the sums of the earlier, good micro-batches are complete in themselves, and nothing
# else is blamed.
expect_code 6 "$CLTRAIN" train mse.json parallel.rank_invariant=true --out badtree1
expect_text "step 1: .*first bad tensor: tensor 'x.f16' .*in micro-batch 4 of 4"
expect_code 6 "${mpi[@]}" 2 "$CLTRAIN" train mse.json parallel.rank_invariant=true --out badtree2
expect_text "step 1: .*first bad tensor \(rank 1\): tensor 'x.f16' .*in micro-batch 2 of 2"

# --- each rank's gradients fit into f16, their sum does not: skipped, on all ranks ---
put_npy zeros.npy 24 5
{ npy_header '<f4' '(24, 2)' && f32 $(yes 1 | head -n 48); } >ones.npy
sed 's/"x.npy"/"zeros.npy"/; s/"y.npy"/"ones.npy"/; s/"micro_batch": 2, "global_batch": 8/"micro_batch": 4, "global_batch": 12/' mse.json >sum.json
sum=("$CLTRAIN" train sum.json precision.loss_scale=100000 train.max_nonfinite=3 optimizer.type=sgd optimizer.learning_rate=0.01)
expect_code 0 "${mpi[@]}" 3 "${sum[@]}" parallel.gradients=f16 --out wire3
values skipped wire3/metrics.jsonl >skips
expect_awk 'the sum on the wire did not skip the first steps, or too many' 'NR == 1 { first = $1 } END { exit !(first == 1 && $1 < 4 && NR == 9) }' skips
expect_code 0 "${mpi[@]}" 3 "${sum[@]}" --out sum3
if [ "$(values skipped sum3/metrics.jsonl | tail -n 1)" = 0 ]; then pass; else fail 'gradients of single ranks overflow'; fi
expect_code 6 "${mpi[@]}" 3 "${sum[@]}" parallel.gradients=f16 precision.loss_scaling=static --out never3
expect_text 'first bad tensor: none on any rank; f16 \(parallel.gradients\) cannot hold a sum over the ranks; lower precision.loss_scale, which is 100000'

# --- precision.mode auto means different types on the ranks' devices ---
if "$CLTRAIN" devices | grep -q 'mma_'; then
    note_skip 'the device has matrix units of its own: none are simulated'
else
    auto=("$CLTRAIN" train gpt.json precision.mode=auto --out never)
    for units in $(several mma_f16 mma_bf16); do
        simulated=(env CLTRAIN_EMULATE="$units" "${auto[@]}")
        expect_code 2 "${mpi[@]}" 1 "${simulated[@]}" : -np 1 "${auto[@]}"
        expect_text 'ranks do not fit: set precision.mode to one type: .*precision.mode auto chooses on their devices: rank 1 of 2'
        expect_code 2 "${mpi[@]}" 3 "${auto[@]}" : -np 1 "${simulated[@]}"
        expect_text 'precision.mode auto chooses on their devices: rank 3 of 4'
    done
    expect_absent never
fi

# --- evaluation and generation ---
expect_code 0 "$CLTRAIN" eval gpt.json --checkpoint one --json half.json
expect_code 0 "$CLTRAIN" eval gpt.json "${single[@]}" --checkpoint one --json wide.json
apart=$(paste <(values loss half.json | head -n 1) <(values loss wide.json | head -n 1) | awk '{ d = $1 - $2; print (d < 0 ? -d : d) }')
if awk -v d="$apart" 'BEGIN { exit !(d > 0 && d < 5e-3) }'; then pass; else fail "evaluation in f16 and f32 is $apart apart"; fi
expect_code 0 "$CLTRAIN" generate --checkpoint one --prompt 'line ' --max-new 12
finish
