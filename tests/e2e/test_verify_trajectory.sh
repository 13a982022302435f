#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 15
#
# verify --trajectory: small models train as recorded; a wrong kernel, a driver that crashes and one that falls silent fail their
# training and no other; JSON, JUnit and baseline know trainings as other checks. With the argument `all`: every training in lanes and in
# groups.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
export TMPDIR=$work

if [ "$part" = all ]; then
    for style in groups lanes; do
        CLTRAIN_STYLE=$style expect_code 0 "$CLTRAIN" verify --trajectory --json $style.json
        expect_text '15 passed, 0 failed'
    done
    # The recorded losses equal what the script makes from such a run, except for the number of digits.
    expect_code 0 python3 "$CLTRAIN_SOURCE_DIR/scripts/make_trajectory_curves.py" groups.json
    plain() { sed '1,/#ifndef/d' "$1" | tr -d ' \n' | sed -E 's/[0-9]+\.[0-9]+(e-?[0-9]+)?|[0-9]+,/N/g; s/N,?/N/g'; }
    cp "$out" made.h
    expect_same <(plain made.h) <(plain "$CLTRAIN_SOURCE_DIR/cli/verify/trajectory_curves.h")
    expect_code 1 python3 "$CLTRAIN_SOURCE_DIR/scripts/make_trajectory_curves.py" /dev/null
    expect_code 2 python3 "$CLTRAIN_SOURCE_DIR/scripts/make_trajectory_curves.py"
    finish
    exit
fi

# --- words ---
expect_code 0 "$CLTRAIN" verify --trajectory --mode list
expect_text '^mlp\.f32/trajectory$' '^unet\.bf16/trajectory$'
expect_code 0 "$CLTRAIN" verify --trajectory --mode list -t 'gpt,resnet.f16' --shard 1/2
[ "$(cat "$out")" = $'gpt.f16/trajectory\nresnet.f16/trajectory' ] && pass || fail "another shard: $(cat "$out")"
expect_code 2 "$CLTRAIN" verify --trajectory -t 'softmax*'
expect_text "no training matches 'softmax\*'"
for wrong in '--seconds 5' '--after relu.tail' '--run runs/mine'; do
    # shellcheck disable=SC2086
    expect_code 2 "$CLTRAIN" verify --trajectory $wrong
done

# --- as recorded, and as before ---
expect_code 0 "$CLTRAIN" verify --trajectory -t 'mlp,llama.f16' --json now.json --junit now.xml
expect_text '^device ' '^PASS +mlp\.bf16/trajectory +error [0-9.e-]+, limit 0\.05' '^4 passed, 0 failed'
expect_awk 'the JSON lacks losses' '/"losses"/ { n++ } /"mode": "trajectory"/ { mode = 1 } END { exit n != 4 || !mode }' now.json
expect_awk 'JUnit lacks the trainings' '/<testcase .*mlp.f32\/trajectory/ { found = 1 } END { exit !found }' now.xml
expect_code 0 "$CLTRAIN" verify --baseline now.json -t mlp.f32
expect_text 'results: 1 with equal bits, 0 with other bits'
expect_code 0 "$CLTRAIN" verify --mode correct,trajectory --small -t 'relu.*,mlp.f32' --shard 0/2 --json both.json
expect_awk 'the training is not beside the checks' '/"name": "mlp.f32\/trajectory"/ { training = 1 } /"name": "relu/ { training = 0; checks++ } \
    /"losses"/ { good = training } END { exit !good || checks < 2 }' both.json
expect_code 0 "$CLTRAIN" verify --baseline both.json --seconds 1
expect_text '0 worse'
cut=$(printf '%0100d' 0)
mkdir "$cut"
TMPDIR=$work/$cut expect_code 0 "$CLTRAIN" verify --trajectory -t mlp.f32

# --- gradients that no self-test of the device covers are too large: reported with the step ---
mkdir broken
sed 's|) \* loss_scale;|) * loss_scale * 1.01f;|' "$CLTRAIN_BUILD_DIR/kernels/cross_entropy.cl" >broken/cross_entropy.cl
if cmp -s broken/cross_entropy.cl "$CLTRAIN_BUILD_DIR/kernels/cross_entropy.cl"; then fail 'nothing was planted'; fi
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 "$CLTRAIN" verify --trajectory -t mlp.f32 --baseline now.json --reduce wrong
expect_text '^FAIL +mlp\.f32/trajectory' 'step [0-9]+: the gradient norm is [0-9.]+, recorded [0-9.]+; a relative difference of 0\.0[0-9]+, and 0\.0001 is allowed' \
    "repeat: cltrain verify --trajectory -t mlp.f32/trajectory" '^not reduced: mlp\.f32/trajectory is a training' '^worse +mlp\.f32/trajectory: PASS, now FAIL'

# --- a device that cannot train, and one that is too slow ---
expect_code 0 "$CLTRAIN" verify --trajectory -t 'mlp.f32' --caps memory=64K
expect_text '^SKIP +mlp\.f32/trajectory' 'memory' '^0 passed, 0 failed, 1 skipped'
expect_code 4 "$CLTRAIN" verify --trajectory -t mlp.f32 --device 'no such device'

# --- a driver that crashes, and one that falls silent ---
if [ -f "$CLTRAIN_BUILD_DIR/tests/driver_shim.so" ]; then
    need_shim
    LD_PRELOAD=$shim CLT_SHIM='launch:family=cross_entropy:segfault:nth=20' expect_code 1 "$CLTRAIN" verify --trajectory -t 'mlp.f32,mlp.f16'
    expect_text 'the driver ended the training with SIGSEGV after step [1-9][0-9]?$' '^0 passed, 2 failed'
    LD_PRELOAD=$shim CLT_SHIM='launch:family=cross_entropy:hang:nth=20' expect_code 1 "$CLTRAIN" verify --trajectory -t mlp.f32 --limit 5
    expect_text 'the training did not end in 5 s; it had computed [0-9]+ steps'
fi

# --- a signal ends it immediately, and its data is removed ---
"$CLTRAIN" verify --trajectory >/dev/null 2>&1 &
while ! compgen -G 'cltrain-trajectory-*/volumes/masks/ct003.nii' >/dev/null && kill -0 $!; do sleep 0.05; done
kill -TERM $!
code=0
wait $! || code=$?
[ $code = 143 ] && pass || fail "after SIGTERM the code is $code"
left=$(find "$work" -maxdepth 1 -name 'cltrain-*')
[ -z "$left" ] && pass || fail "folders are left: $left"
finish
