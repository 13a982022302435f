#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# deploy/slurm.sbatch under a real Slurm of one node on the loopback address: a job of two ranks is interrupted, saves, is queued again,
# goes on, twice, and has computed what ranks without Slurm and without an interruption compute,
# bit for bit. Slurm holds a job that is queued again back for some time; cred_expire makes it short here.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for program in slurmctld slurmd sbatch scontrol python3 mpirun; do
    command -v $program >/dev/null || skip_all "$program is not installed"
done
[ "$(id -u)" -eq 0 ] || skip_all 'only root may start the daemons of Slurm here'
[ -f "$CLTRAIN_MODULE_DIR/cltrain_comm_mpi.so" ] || skip_all 'the MPI module was not built'
unset "${!SLURM_@}" "${!PMIX_@}" "${!PMI_@}" 2>/dev/null
code=0
"$CLTRAIN" devices >devices 2>&1 || code=$?
[ $code -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'

mkdir state spool
read -r port_1 port_2 < <(python3 -c 'import socket
found = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in found))')
cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=10
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmctldPort=$port_1
SlurmdPort=$port_2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=YES
CONF
export SLURM_CONF=$work/slurm.conf CLTRAIN
srun --mpi=list 2>&1 | grep -q pmix || skip_all 'Slurm has no plug-in for PMIx'
slurmctld -D >slurmctld.out 2>&1 &
daemons=$!
slurmd -D -N localhost >slurmd.out 2>&1 &
daemons="$daemons $!"
# shellcheck disable=SC2086
trap 'scancel --user=root >/dev/null 2>&1; kill $daemons; wait; rm -rf "$work"' EXIT
is_idle() { [ "$(sinfo --noheader --format=%t)" = idle ]; }
await is_idle

net mlp train.steps=4000000 train.log_every=1 checkpoint.minutes=0 data.global_batch=16 >net.json
state() { scontrol --oneliner show job "$job" | sed -n 's/.* JobState=\([A-Z]*\) .*/\1/p'; }
is_state() { [ "$(state)" = "$1" ]; }
restarts() { scontrol --oneliner show job "$job" | sed -n 's/.* Restarts=\([0-9]*\) .*/\1/p'; }
has_starts() { [ "$(grep -c '"event":"start"' run/metrics.jsonl 2>/dev/null)" -eq "$1" ]; }
stopped_at() { sed -n 's/.*"event":"stopped","step":\([0-9]*\),.*/\1/p' run/metrics.jsonl 2>/dev/null | tail -n 1; }
# goes_on STARTS: waits until the job has started STARTS times, and has made more steps than at its last end
goes_on() {
    local last
    last=$(stopped_at)
    await has_starts "$1"
    await has_updates run $((${last:-0} + 30))
}
job=$(sbatch --parsable --nodes=1 --ntasks-per-node=2 --gpus-per-node=0 --mem=0 --output="$work/job.out" "$CLTRAIN_SOURCE_DIR/deploy/slurm.sbatch" net.json run)
if [[ $job =~ ^[0-9]+$ ]]; then pass; else fail "sbatch: $job"; finish; fi
goes_on 1
scancel --signal=USR2 "$job" # what --signal sends before the time limit
goes_on 2
if [ "$(restarts)" = 1 ]; then pass; else fail "Slurm has started the job again $(restarts) times"; fi
scancel --signal=USR2 "$job"
goes_on 3
if [ "$(restarts)" = 2 ]; then pass; else fail "Slurm has started the job again $(restarts) times, not twice"; fi
touch run/STOP
await is_state COMPLETED
cp job.out "$out"
expect_text 'code 75 at step [0-9]+: queued again' 'resumed from'
last=$(stopped_at)
grep -q '"ranks":2' run/metrics.jsonl || fail 'the tasks of srun did not train together'
expect_code 0 "$CLTRAIN" ckpt verify run
expect_code 0 "$CLTRAIN" launch --devices 2 net.json --out straight --max-steps "$last"
for file in model optimizer; do
    expect_same "run/checkpoints/step_$last/$file.safetensors" "straight/checkpoints/step_$last/$file.safetensors"
done
finish
