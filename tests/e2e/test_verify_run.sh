#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10
#
# verify --run: steps of a recorded run are trained again and compared: on the same device to the bit, with other kernels within the
# promise between devices, with a broken kernel beyond it; from the beginning and from a checkpoint; what cannot be replayed is refused.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mkdir tmp
export TMPDIR=$work/tmp
net mlp model.activation=gelu_tanh train.steps=40 checkpoint.every=15 checkpoint.keep=0 >net.json
expect_code 0 "$CLTRAIN" train net.json --out run
before=$(find run | sort)

# The same device: up to the first checkpoint, whose weights are compared.
expect_code 0 "$CLTRAIN" verify --run run --json same.json
expect_text '^replaying steps 1 to 15 of run$' '^loss +steps 1 to 10: equal' '^loss +steps 11 to 15: equal' '^gradient norm +steps 11 to 15: equal' \
    '^weights +after step 15: all 4 tensors have the same bits'
grep -q '"steps_with_equal_loss": 15' same.json && pass || fail 'the JSON does not count equal steps'
expect_code 0 "$CLTRAIN" verify --run run/checkpoints/step_15 --steps 15
expect_text '^replaying steps 16 to 30 of run' '^loss +steps 16 to 25: equal' '^loss +steps 26 to 30: equal' 'after step 30: all 4 tensors'
expect_code 0 "$CLTRAIN" verify --run run --steps 7
expect_text '^replaying steps 1 to 7 ' 'not compared: the run has no checkpoint of step 7'
expect_code 0 "$CLTRAIN" verify --run run/checkpoints/step_30 --steps 500
expect_text '^replaying steps 31 to 40 '
# The run has not changed, and nothing is left over.
[ "$before" = "$(find run | sort)" ] && pass || fail 'the replay changed the run'
[ -z "$(ls -A tmp)" ] && pass || fail "the replay left $(ls -A tmp)"

# Other kernels round differently; a wrong kernel is detected.
expect_code 0 "$CLTRAIN" verify --run run --caps none
expect_text '^loss +steps 1 to 10: (equal|differ by [0-9.]+e-0[678] at most .*1e-05 is allowed)' '^weights +after step 15: '
mkdir broken
# the derivative of an activation, which no self-test of the device covers
sed 's|CLT_K(1\.5957691216057308f)|CLT_K(1.58f)|' "$CLTRAIN_BUILD_DIR/kernels/functions.clh" >broken/functions.clh
if cmp -s broken/functions.clh "$CLTRAIN_BUILD_DIR/kernels/functions.clh"; then fail 'nothing was planted'; fi
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 "$CLTRAIN" verify --run run --caps all --json worse.json
expect_text '^gradient norm +steps 1 to 10: differ .*0\.0001 is EXCEEDED' 'does not train .run. as it was trained'
grep -q '"within_tolerance": false' worse.json && pass || fail 'the JSON does not tell that the tolerance is exceeded'
CLTRAIN_KERNEL_DIR=$work/broken expect_code 0 "$CLTRAIN" verify --run run --caps all --tolerance 0.5

# In 16 bits the promise allows larger differences.
expect_code 0 "$CLTRAIN" train net.json --out half precision.mode=f16
expect_code 0 "$CLTRAIN" verify --run half --caps none
expect_text '0\.05 is allowed|steps 1 to 10: equal'

# A run that was resumed with another length: each part uses its own schedule, and the config of its own
# checkpoint.
net mlp train.steps=20 checkpoint.every=10 checkpoint.keep=0 schedule.type=cosine >cosine.json
expect_code 0 "$CLTRAIN" train cosine.json --out longer
expect_code 0 "$CLTRAIN" train --resume longer train.steps=40
expect_code 0 "$CLTRAIN" verify --run longer --steps 30
expect_text '^replaying steps 1 to 20 ' '^loss +steps 11 to 20: equal' 'after step 20: all 4 tensors have the same bits'
expect_code 0 "$CLTRAIN" verify --run longer/checkpoints/step_20 --steps 30
expect_text '^replaying steps 21 to 40 ' '^loss +steps 21 to 30: equal' 'after step 40: all 4 tensors have the same bits'
rm -r longer/checkpoints/step_10 longer/checkpoints/step_20
expect_code 2 "$CLTRAIN" verify --run longer
expect_text 'was resumed after step 20, .* name a later checkpoint'

# Runs that cannot be replayed.
expect_code 0 "$CLTRAIN" export run --out weights.safetensors
expect_code 0 "$CLTRAIN" train net.json --out tuned --init weights.safetensors train.steps=20
expect_code 2 "$CLTRAIN" verify --run tuned
expect_text 'began with the weights of a file .*name a checkpoint'
expect_code 0 "$CLTRAIN" verify --run tuned/checkpoints/step_15
expect_text '^replaying steps 16 to 20 ' 'after step 20: all 4 tensors have the same bits'
expect_code 2 "$CLTRAIN" verify --run run/checkpoints/step_40
expect_text 'no recorded steps after step 40'
cp -r run/checkpoints/step_15 .
expect_code 2 "$CLTRAIN" verify --run step_15
expect_text 'not in a run folder'
expect_code 7 "$CLTRAIN" verify --run nowhere
expect_code 2 "$CLTRAIN" verify --run run --quick
expect_text 'makes no checks'
expect_code 2 "$CLTRAIN" verify --steps 3
TMPDIR=$work/missing expect_code 8 "$CLTRAIN" verify --run run
expect_text 'TMPDIR'
yes 'the quick brown fox' | head -n 200 >text
net gpt train.steps=3 >gpt.json
expect_code 0 "$CLTRAIN" train gpt.json --out gpt
mv text elsewhere
expect_code 3 "$CLTRAIN" verify --run gpt
expect_text 'data.path'
[ -z "$(ls -A tmp)" ] && pass || fail "failed replays left $(ls -A tmp)"
finish
