#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 11 ctest-optimise: no
#
# Checkpoints contain whole tensors, so a run can be resumed with another number of ranks: from 2 to 1 and from 1 to 2, close to the
# uninterrupted run; with the same number it is equal. Another global batch is refused, and reported once.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

net mlp 'model.hidden=[24]' model.activation=tanh model.dropout=0.1 data.samples=100 'data.shape=[6]' data.classes=3 data.noise=1.0 \
    data.micro_batch=4 data.global_batch=16 optimizer.learning_rate=0.01 optimizer.clip=1 train.steps=30 train.eval_every=10 checkpoint.every=5 \
    >net.json
# floats FILE: the numbers of a safetensors file, one a line.
floats() {
    local header
    header=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
    od -A n -v -t f4 -w4 -j $((8 + header)) "$1"
}
# expect_close A B: parameters and losses differ by at most 1e-6.
expect_close() {
    local worst
    worst=$(paste <(floats "$1/checkpoints/step_30/model.safetensors" && values loss "$1/metrics.jsonl") \
        <(floats "$2/checkpoints/step_30/model.safetensors" && values loss "$2/metrics.jsonl") | awk '
        NF != 2 { print "of different length"; bad = 1; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d }
        END { if (!bad && (NR < 200 || worst > 1e-6)) print NR " numbers, worst " worst }')
    if [ -z "$worst" ]; then pass; else fail "$1 and $2: $worst"; fi
}

expect_code 0 "$CLTRAIN" train net.json --out one
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out two
expect_close one two

expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out down --max-steps 15
cp -r down same
expect_code 0 "$CLTRAIN" train net.json --out down --resume auto
expect_text '^resumed from down/checkpoints/step_15 at step 15$' '^batch .*16 samples a step, 4 times 4 one after the other'
expect_close one down
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out same --resume auto
if [ "$(grep -c 'resumed from same/checkpoints/step_15 at step 15$' "$out")" -eq 1 ]; then pass; else fail 'rank 0 alone should say it'; fi
expect_same two/checkpoints/step_30/model.safetensors same/checkpoints/step_30/model.safetensors
expect_same two/checkpoints/step_30/optimizer.safetensors same/checkpoints/step_30/optimizer.safetensors
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out same --resume auto
expect_text 'the run is complete'

expect_code 0 "$CLTRAIN" train net.json --out up --max-steps 15
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out up --resume auto
expect_text 'resumed from up/checkpoints/step_15 at step 15$'
expect_close one up

# All ranks read the newest checkpoint. It is damaged, so they go back to the one before, and only rank 0 says so.
expect_code 0 "$CLTRAIN" train net.json --out hurt --max-steps 15
printf 'x' | dd of=hurt/checkpoints/step_15/model.safetensors bs=1 seek=700 conv=notrunc 2>/dev/null
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out hurt --resume auto
expect_text 'resumed from hurt/checkpoints/step_10 at step 10$'
if [ "$(grep -c 'step_15 is skipped' "$out")" -eq 1 ]; then pass; else fail 'the damaged checkpoint should be named once'; fi
expect_close one hurt
rm -r hurt/checkpoints/step_*
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out hurt --resume auto --max-steps 1
expect_code 7 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out other --resume hurt/checkpoints/step_99 --max-steps 1

# With a number of ranks that does not divide the four micro-batches, and back.
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train net.json --out any --max-steps 5
for ranks in 3 1 4; do
    expect_code 0 "${mpi[@]}" $ranks "$CLTRAIN" train net.json --out any --resume auto --max-steps $((ranks == 3 ? 10 : ranks == 1 ? 20 : 30))
    expect_text 'resumed from any/checkpoints/step_'
done
expect_close one any

# --- refused: reported once, nothing changed ---
cp -r one before
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out one --resume auto optimizer.clip=2
expect_text '^optimizer.clip: was 1, is 2$'
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out never --resume one optimizer.clip=2
if [ "$(grep -c '^optimizer.clip: was 1, is 2$' "$out")" -eq 1 ]; then pass; else fail 'the difference should be said once'; fi
expect_absent never
if diff -r one before >/dev/null; then pass; else fail 'a refused resume changed the folder'; fi
# Without data.global_batch a run keeps the number of samples per step if the ranks can divide it; another
# batch is never used without a message.
sed 's/, "global_batch": 16//' net.json >implied.json
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train implied.json --out implied --max-steps 10
expect_code 2 "${mpi[@]}" 3 "$CLTRAIN" train implied.json --out implied --resume auto
expect_text 'its 10 steps took 8 samples each, this run takes 12 a step; give data.micro_batch=2 data.global_batch=8$'
expect_code 0 "$CLTRAIN" train implied.json --out implied --resume auto --max-steps 15
expect_text '^batch .*8 samples a step, 2 times 4 one after the other'
expect_code 2 "${mpi[@]}" 4 "$CLTRAIN" train implied.json --out implied --resume auto
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train implied.json --out implied --resume auto data.micro_batch=2
expect_text 'a step takes 8 samples as before, now in micro-batches of 2, before of 4'
finish
