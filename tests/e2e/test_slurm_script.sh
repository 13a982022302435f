#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# deploy/slurm.sbatch with made-up srun and scontrol: what it starts, and after which ends it queues the job again.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir bin
unset SLURM_JOB_ID SLURM_PROCID SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NUM_TASKS PMI_FD PMIX_NAMESPACE # where the tests are themselves a step
cat >bin/srun <<'SH'
#!/bin/sh
echo "$*" >>calls
mkdir -p run/checkpoints
[ -z "$STEP" ] || mkdir "run/checkpoints/step_$STEP"
printf '{"event":"start"}\n{"event":"stopped","reason":"%s"}\n' "$REASON" >run/metrics.jsonl
exit "$CODE"
SH
printf '#!/bin/sh\necho "$*" >>queued\n' >bin/scontrol
chmod +x bin/srun bin/scontrol
# ends CODE STEP REASON WANTED QUEUED: srun ends with CODE, has saved STEP ("": nothing) and was stopped for REASON.
ends() {
    rm -f queued
    CODE=$1 STEP=$2 REASON=$3 SLURM_JOB_ID=17 PATH=$work/bin:$PATH \
        expect_code "$4" bash "$CLTRAIN_SOURCE_DIR/deploy/slurm.sbatch" small.json run 'a.b=c d' e.f=g
    if [ "$(cat queued 2>/dev/null)" = "$5" ]; then pass; else fail "code $1, checkpoint '$2', $3: queued '$(cat queued 2>/dev/null)'"; fi
}
ends 75 10 SIGUSR2 0 'requeue 17'
ends 75 900 SIGUSR2 0 'requeue 17'
ends 75 1000 'a file STOP in the run folder' 0 ''
ends 75 1050 'cost.budget is reached' 0 ''
ends 0 1100 '' 0 ''
ends 9 1200 '' 0 'requeue 17'
ends 9 '' '' 9 ''
expect_text 'code 9, and no checkpoint is newer than step 1200'
ends 137 1300 '' 0 'requeue 17'
ends 10 1400 '' 0 'requeue 17'
ends 2 1500 '' 2 ''
expect_awk 'what it starts' '!/^--mpi=pmix .* [^ ]*cltrain train small.json --out run --resume auto a.b=c d e.f=g$/ { exit 1 } END { if (NR != 10) exit 1 }' calls
expect_code 1 bash "$CLTRAIN_SOURCE_DIR/deploy/slurm.sbatch" small.json

# Tasks of srun that cannot find each other: each prints a warning. A batch script, a single task of srun,
# and tasks with PMI do not.
step=(SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=4)
for more in SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0; do
    for command in train eval; do
        expect_code 2 env "${step[@]}" $more "$CLTRAIN" $command absent.json
        expect_text '^warning: srun started 4 tasks without PMI.*srun --mpi=pmix'
    done
    expect_code 2 env "${step[@]}" $more "$CLTRAIN" launch absent.json
    expect_text 'launch starts the ranks itself; do not start it by mpirun or srun'
done
for more in SLURM_JOB_ID=7 SLURM_STEP_NUM_TASKS=1; do
    expect_code 2 env "${step[@]}" $more "$CLTRAIN" train absent.json
    reject_text srun
done
if bash -n "$CLTRAIN_SOURCE_DIR/deploy/slurm.sbatch"; then pass; else fail 'syntax'; fi
finish
