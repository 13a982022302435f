#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Trainings on bad drivers, simulated by driver_shim.c: a build that is refused, aborts or hangs, a launch
# that is refused, faults or gives wrong numbers, in the kernels of each capability and in its probe. Each
# training must finish without the part that the driver broke: its losses equal the good driver's, and the
# message names what was given up and why. In the seeds child-*, tested-* and limit-all-* the bad driver is
# already there when the device is asked for its capabilities, so probes and self-tests find the fault. In
# the other seeds the driver was good then, and the training finds the fault. This is the short list;
# CLTRAIN_SEEDS=all (test_seeded_drivers_many.sh) runs all seeds, CLTRAIN_SEEDS=PATTERN those whose name
# matches.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
unset CLTRAIN_GEMM
export TMPDIR=$work XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache} # the compiler's cache is the user's: it saves minutes
"$CLTRAIN" devices >devices.txt 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is trained'
! grep -q 'mma_' devices.txt || skip_all 'the device has matrix units of its own: none are simulated'
need_shim
seeds=${CLTRAIN_SEEDS:-short}

# Probes that crash or hang end only a child process, or the program if there is no such child.
has_child=false
"$CLTRAIN" help probe >/dev/null 2>&1 && has_child=true
# Kernels of plans are safe from crashes, hangs and wrong numbers only if self-tests ran first; then the
# answers contain them.
has_tests=false
CLTRAIN_CACHE_DIR=$work/answers CLTRAIN_EMULATE=mma_bf16 "$CLTRAIN" devices >/dev/null 2>&1
grep -rqs '"test[:-]' "$work/answers" && has_tests=true

awk 'BEGIN { for (i = 0; i < 400; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
cat >mlp.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32], "outputs": 4},
 "data": {"type": "synthetic", "samples": 256, "shape": [12], "classes": 4, "micro_batch": 16},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 1},
 "precision": {"mode": "auto"}, "train": {"steps": 12, "log_every": 1}, "device": {"tune": "off"}}
JSON
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 16},
 "data": {"type": "text", "path": "text", "micro_batch": 4},
 "optimizer": {"type": "adamw", "learning_rate": 0.002, "clip": 1},
 "precision": {"mode": "auto"}, "train": {"steps": 8, "log_every": 1}, "device": {"tune": "off"}}
JSON

# reference NAME CONFIG [VALUE...]: losses on the good driver, once.
reference() {
    local name=$1
    shift
    [ -f "$name.loss" ] && return
    guarded "$CLTRAIN" train "$@" --out "reference-$name" >"$out" 2>&1 </dev/null || fail "no reference: $*"
    values loss "reference-$name/metrics.jsonl" >"$name.loss"
}

n_seeds=0
n_unplayed=0
# check NAME REFERENCE TOLERANCE MESSAGE: checks that the run is complete, the seed struck, the message says
# so, and the losses equal the reference's.
check() {
    local name=$1 against=$2 tolerance=$3 message=$4
    if [ -s shim.log ]; then pass; else fail "$name: the seed never struck"; fi
    [ -z "$message" ] || expect_text "$message"
    paste "$against.loss" <(values loss run/metrics.jsonl 2>/dev/null) >both
    expect_awk "$name: losses differ from those of the good driver" \
        "{ d = \$1 - \$2; if (d < 0) d = -d; if (NF != 2 || !(d < $tolerance)) bad = 1 } END { exit bad || NR < 8 }" both
}

# Caches with the answers of a good driver, one for each set of emulated units and masks.
declare -A asked
asked_cache() {
    local units=$1 command=(devices)
    shift
    # the mask alone causes the self-tests of kernels in groups
    [ "$units" != groups ] || command=(train mlp.json train.steps=1 --caps=-wide_vectors --out asked_run)
    if [ -z "${asked[$units]:-}" ]; then
        guarded env "$@" CLTRAIN_CACHE_DIR="$work/asked" CLT_SHIM='build:family=no_such:error' LD_PRELOAD="$shim" \
            "$CLTRAIN" "${command[@]}" >"$out" 2>&1 </dev/null || fail "the good driver does not answer"
        asked[$units]=1
    fi
    cp -r asked cache
}

# seed NAME TYPE UNITS CONFIG RULES MESSAGE: TYPE is precision.mode; UNITS are emulated ('-': none;
# 'groups': none, and kernels as for GPUs, because wide_vectors is masked).
seed() {
    local name=$1 type=$2 units=$3 config=$4 rules=$5 message=$6 tolerance=1e-4 emulate=() mask=() before=$n_failed
    local against=${config%.json}-$type
    case $seeds in all) ;; short) [[ $name == *'*' ]] || return 0 ;; *) [[ $name =~ $seeds ]] || return 0 ;; esac
    name=${name%\*}
    if [[ $name == child-* ]] && ! $has_child || [[ $name == tested-* ]] && ! $has_tests; then
        n_unplayed=$((n_unplayed + 1))
        return 0
    fi
    [ "$type" = f32 ] || tolerance=5e-3
    [[ $name != clblast-* ]] || emulate=(CLTRAIN_GEMM=clblast) # which is nobody's choice for a CPU
    case $units in -) ;; groups) mask=(--caps=-wide_vectors) ;; *) emulate=(CLTRAIN_EMULATE="$units") ;; esac
    reference "$against" "$config" precision.mode="$type"
    case $units in - | groups) ;; *) type=auto ;; esac # and may fall back to f32 with its units
    rm -rf run cache shim.log
    n_seeds=$((n_seeds + 1))
    case $units in groups) ;; -) ;; *) units=emulated-$units ;; esac
    [[ $name =~ ^(child|tested|limit-all) ]] || asked_cache "$units" "${emulate[@]}" NOTHING=
    # Each query that hangs costs one wait, which is longer than any query takes without a hang.
    [[ $rules != *:hang* ]] || emulate+=(CLTRAIN_PROBE_SECONDS=$((45 * ${CLTRAIN_TEST_PATIENCE:-1})))
    expect_code 0 env "${emulate[@]}" CLTRAIN_CACHE_DIR="$work/cache" CLT_SHIM="$rules;log=$work/shim.log" LD_PRELOAD="$shim" \
        "$CLTRAIN" train "$config" precision.mode="$type" "${mask[@]}" --out run
    check "$name" "$against" "$tolerance" "$message"
    [ "$n_failed" -eq "$before" ] || echo "    seed $name: CLT_SHIM='$rules'"
}

went_on='continues without'
# --- products in lane style: wide_vectors and its GEMM ---
seed 'build-lane*' f32 - mlp.json 'build:family=gemm_lane:error' "$went_on variant 'lane'.*gemm_lane|CL_BUILD_PROGRAM_FAILURE"
seed build-lane-resources f32 - mlp.json 'build:family=gemm_lane:error=-5' "$went_on variant 'lane'"
seed build-lane-one-layout f32 - mlp.json 'build:family=gemm_lane+option=-DTA=1:error' "$went_on variant 'lane'"
seed kernel-lane f32 - mlp.json 'kernel:family=gemm_lane:error=-46' "$went_on variant 'lane'"
seed group-lane f32 - mlp.json 'group:family=gemm_lane:limit=0' "$went_on variant 'lane'.*at most 0"
seed launch-lane-resources f32 - mlp.json 'launch:family=gemm_lane:error=-5' "$went_on variant 'lane'.*CL_OUT_OF_RESOURCES"
seed launch-lane-group f32 - mlp.json 'launch:family=gemm_lane:error=-54' "$went_on variant 'lane'.*CL_INVALID_WORK_GROUP_SIZE"
seed 'dead-lane*' f32 - mlp.json 'launch:family=gemm_lane:dead' "$went_on variant 'lane'"
seed dead-lane-9999 f32 - mlp.json 'launch:family=gemm_lane:dead=-9999' "$went_on variant 'lane'"
seed event-lane f32 - mlp.json 'launch:family=gemm_lane:event' "$went_on variant 'lane'"
seed event-lane-late f32 - mlp.json 'launch:family=gemm_lane:event=-9999:nth=3' "$went_on"
for what in build:error kernel:error=-5 group:limit=0 launch:error=-5 launch:error=-54 launch:dead launch:event; do
    seed "wide-${what/:/-}" f32 - mlp.json "${what%%:*}:family=gemm_lane:${what#*:};${what%%:*}:family=gemm+!family=gemm_lane:${what#*:}:nth=1" \
        "$went_on capability wide_vectors"
done
for what in build:error launch:error=-5 launch:dead=-9999; do
    seed "gpt-lane-${what/:/-}" f32 - gpt.json "${what%%:*}:family=gemm_lane:${what#*:}" "$went_on variant 'lane'"
done
# --- rows, lanes and groups of other kernels ---
for kernel in layernorm_fwd_row layernorm_bwd_block embedding_fwd_row cross_entropy_fwd_row attention_fwd_lane attention_bwd_lane \
    update_adam; do
    seed "launch-$kernel" f32 - gpt.json "launch:kernel=$kernel:error=-5:nth=1" "$went_on.*$kernel"
    seed "dead-$kernel" f32 - gpt.json "launch:kernel=$kernel:dead:nth=1" "$went_on"
done
for family in attention_lane; do
    seed "build-$family" f32 - gpt.json "build:family=$family:error" "$went_on variant .*$family"
done
# --- optional parts of kernels ---
seed build-prefetch f32 - mlp.json 'build:option=-DPREFETCH=1:error' "$went_on capability prefetch"
seed build-ahead f32 - gpt.json 'build:option=-DAHEAD=1:error' "$went_on capability prefetch"
seed build-prefetch-innocent f32 - mlp.json 'build:family=gemm_lane:error' "$went_on capability prefetch"
# --- sizes of groups: nothing is given up ---
for kernel in loss_fwd attention embedding layernorm cross_entropy; do
    seed "limit-$kernel" f32 - gpt.json "group:kernel=$kernel:limit=32" ''
done
for n in 128 64 32 8 1; do
    seed "limit-all-$n" f32 groups mlp.json "group:*:limit=$n" ''
done
# the probes were allowed more: choices for larger groups are given up
for n in 128 64 16 1; do
    seed "limit-kernels-$n" f32 groups mlp.json "group:!family=probe:limit=$n" "$went_on"
done
# --- without wide_vectors: CLBlast's products, the update in groups (local, wg256) ---
for what in build:error launch:error=-5 launch:error=-54 launch:dead launch:event kernel:error=-5; do
    seed "clblast-${what/:/-}" f32 groups mlp.json "${what%%:*}:family=foreign:${what#*:}" "$went_on variant 'clblast'"
done
for kernel in update_norm update_finish update_adam; do
    for what in error=-5 error=-54 dead event; do
        seed "groups-$kernel-$what" f32 groups mlp.json "launch:kernel=$kernel:$what:nth=1" "$went_on capability wg256"
    done
done
seed 'build-groups*' f32 groups mlp.json 'build:option=-DWG=:error' "$went_on variant 'group'"
seed build-groups-256 f32 groups mlp.json 'build:option=-DWG=256:error' "$went_on capability wg256"
# --- matrix units ---
seed build-units-bf16 bf16 mma_bf16 mlp.json 'build:family=gemm_mma:error' "$went_on capability mma_bf16"
seed build-units-f16 f16 mma_f16 mlp.json 'build:family=gemm_mma:error' "$went_on capability mma_f16"
seed build-units-one-tile bf16 mma_bf16 mlp.json 'build:family=gemm_mma:error:nth=1' "$went_on tile"
seed launch-units-bf16 bf16 mma_bf16 mlp.json 'launch:family=gemm_mma:error=-5' "$went_on capability mma_bf16"
seed launch-units-f16-k8 f16 mma_f16_k8 mlp.json 'launch:family=gemm_mma:error=-54' "$went_on capability mma_f16_k8"
seed dead-units-bf16 bf16 mma_bf16 mlp.json 'launch:family=gemm_mma:dead:nth=1' "$went_on tile"
seed build-attention-units bf16 mma_bf16 gpt.json 'build:family=attention_mma:error' "$went_on variant 'mma'"
# --- probes that cannot be asked, and self-tests: only a child process crashes ---
for option in PROBE_FP64 PROBE_NONTEMPORAL PROBE_INT64_ATOMICS PROBE_PREFETCH; do
    for what in abort segfault hang error; do
        seed "child-build-$option-$what" f32 - mlp.json "build:family=probe+option=$option:$what" ''
    done
done
for kernel in probe_local probe_lane probe_nontemporal probe_fp64 probe_prefetch; do
    for what in abort segfault hang dead event garbage error=-5; do
        name=child-$kernel-$what
        [ "$name" != child-probe_lane-abort ] || name+='*'
        seed "$name" f32 - mlp.json "launch:kernel=$kernel:$what" ''
    done
done
for what in build:abort build:hang build:segfault launch:garbage launch:garbage=0.01 launch:hang; do
    seed "tested-units-${what/:/-}" bf16 mma_bf16 mlp.json "${what%%:*}:family=gemm_mma:${what#*:}" ''
    seed "tested-lane-${what/:/-}" f32 - mlp.json "${what%%:*}:family=gemm_lane:${what#*:}" ''
done
# The form that accepts every product, with float16 vectors: the device continues without these.
seed 'tested-floor-build-error*' f32 - mlp.json 'build:family=gemm+option=-DVW=16:error' "goes without 'wide_vectors' \\(refused\\)"
for what in abort hang; do
    seed "tested-floor-build-$what" f32 - mlp.json "build:family=gemm+option=-DVW=16:$what" "goes without 'wide_vectors' \\("
done
seed tested-floor-launch-garbage f32 - mlp.json 'launch:family=gemm+option=-DVW=16:garbage' "goes without 'wide_vectors' \\(wrong\\)"
seed tested-update-build-error f32 - mlp.json 'build:family=adam+!option=-DWG=:error' "goes without 'wide_vectors' \\(refused\\)"
[ "$n_unplayed" -eq 0 ] || note_skip "$n_unplayed seeds that end the process: this program does not ask its drivers for it in a child"
echo "$n_seeds seeds simulated"
finish
