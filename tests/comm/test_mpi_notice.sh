#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8 ctest-optimise: no
#
# A notice that a machine will be taken away, with two ranks, one of which polls: both end at the same step
# with code 75, and have computed the same as an undisturbed run. `launch` does not start such a run again.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

net mlp train.steps=4000000 train.log_every=1 checkpoint.minutes=0 data.global_batch=16 cloud.notice_file=gone cloud.poll_seconds=0.05 >net.json
undisturbed() { # RUN: its parameters are those of a run that nobody has disturbed
    local last
    last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out" | head -n 1)
    expect_code 0 "$CLTRAIN" ckpt verify "$1"
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out "$1.straight" --max-steps "$last" cloud.provider=off
    expect_same "$1.straight/checkpoints/step_$last/model.safetensors" "$1/checkpoints/step_$last/model.safetensors"
}

# The hooks run once on this host.
hooks=('hooks.on_notice=["sh","-c","echo notice $CLTRAIN_STEP >>told"]' 'hooks.on_save=["sh","-c","echo save $CLTRAIN_STEP >>told"]'
    'hooks.on_exit=["sh","-c","echo exit $CLTRAIN_EXIT_CODE >>told"]')
"${mpi[@]}" 2 "$CLTRAIN" train net.json --out run "${hooks[@]}" >run.out 2>&1 &
launcher=$!
await_from $launcher has_updates run 20
touch gone
ended 75 run.out
expect_text 'notice of file: the file gone exists; the run finishes its step, saves and ends'
undisturbed run
if [ "$(sed 's/ .*//' told | sort | tr '\n' ' ')" = 'exit notice save ' ]; then pass; else fail "the hooks told: $(tr '\n' ';' <told)"; fi

# A rank that fails tells the others immediately, whatever its hooks do: this hook runs until the test ends.
cat >slow <<'END'
#!/bin/sh
echo begun >>slow.txt
until [ -e free ]; do sleep 0.05; done
END
chmod +x slow
net mse train.steps=4 data.path=absent.csv >absent.json
expect_code 3 "${mpi[@]}" 2 "$CLTRAIN" train absent.json --out failed 'hooks.on_exit=["./slow"]' hooks.seconds=80000
await test -s slow.txt
touch free

rm gone
"$CLTRAIN" launch --devices 2 net.json --out launched >launched.out 2>&1 &
launcher=$!
await_from $launcher has_updates launched 20
touch gone
ended 75 launched.out
expect_text 'the run was stopped: a notice that a machine will be taken away'
reject_text 'restart 1'
undisturbed launched
finish
