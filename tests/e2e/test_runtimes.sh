#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: runtimes
# ctest-parts: pocl intel pocl-3.0 rusticl oclgrind others
#
# Other OpenCL runtimes compute what PoCL computes: `devices`, `verify --small`, a small GPT trained in f32, f16 and bf16 with the
# loss of every step compared with PoCL's, runs that move between the two runtimes at a checkpoint, in both directions, and two ranks
# that train together, one on PoCL and one on the other runtime.
#
# Runtimes are the folders of $CLTRAIN_RUNTIMES, which scripts/runtimes.sh makes; a missing one is skipped with the reason, and
# nothing is downloaded here. The part `others` tests folders that the script does not know. Each runtime keeps its compiled kernels
# in NAME/cache and gets a record of its results, NAME/record.json, from which scripts/devices_page.sh makes docs/devices.md.
#
# CLTRAIN_RUNTIMES_SMALL names the runtimes for which the test is smaller (default: oclgrind, which interprets kernels): only the
# checker's comparison with the reference, and a smaller GPT for 20 steps.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/losses_lib.sh"

part=${1:-others}
known='pocl intel pocl-3.0 rusticl oclgrind'
folder=${CLTRAIN_RUNTIMES:-}
[ -n "$folder" ] || skip_all 'CLTRAIN_RUNTIMES is not set; scripts/runtimes.sh FOLDER makes the folder that it names'
[ -d "$folder" ] || skip_all "CLTRAIN_RUNTIMES=$folder is not a folder; scripts/runtimes.sh FOLDER makes one"
folder=$(cd "$folder" && pwd)
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_VENDOR_PATH CLTRAIN_ICD_MADE CLTRAIN_ICD_REPAIR RUSTICL_ENABLE CLTRAIN_LISTED

is_there() { [ -d "$folder/$1/vendors" ]; }
why_not() {
    if [ -r "$folder/$1/missing" ]; then cat "$folder/$1/missing"; else echo "$folder/$1 does not exist; scripts/runtimes.sh makes it"; fi
}
commit=$(git -C "$(dirname "${BASH_SOURCE[0]}")" describe --always --dirty 2>/dev/null) || commit='' # of the tests, and so of the program
is_there pocl || skip_all "there is no PoCL to compare with: $(why_not pocl)"
is_small() { case " ${CLTRAIN_RUNTIMES_SMALL-oclgrind} " in *" $1 "*) true ;; *) false ;; esac; }

# settings_of NAME: the variables that make that runtime the only driver, with its own caches, one a line.
settings_of() {
    cat "$folder/$1/env"
    printf '%s\n' OCL_ICD_VENDORS="$folder/$1/vendors" CLTRAIN_CACHE_DIR="$folder/$1/cache" POCL_CACHE_DIR="$folder/$1/cache/pocl" \
        MESA_SHADER_CACHE_DIR="$folder/$1/cache/mesa"
}
# on NAME COMMAND...: runs the command with that runtime.
on() {
    local name=$1 settings
    shift
    mapfile -t settings < <(settings_of "$name")
    mkdir -p "$folder/$name/cache/pocl" "$folder/$name/cache/mesa"
    env "${settings[@]}" "$@"
}

# --- the record: one value a line ---
quoted() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }
put() { printf '  "%s": "%s",\n' "$1" "$(quoted "$2")" >>"$record"; }
checks() { # CHECK RESULT SECONDS DETAIL: one line of the list
    printf '    {"check": "%s", "result": "%s", "seconds": %d, "detail": "%s"},\n' "$1" "$2" "$3" "$(quoted "$4")" >>"$record.checks"
    echo "$runtime: $1: $2${4:+: $4} ($3 s)"
    # The record is complete after each check, so that a stopped test leaves its results.
    { cat "$record" && echo '  "checks": [' && sed '$s/,$//' "$record.checks" && printf '  ]\n}\n'; } >"$folder/$runtime/record.json"
}
# A value of `devices --json`, of the first device.
described() { sed -n -E "s/^ *\"$1\": \"?([^\"]*[^\",])\"?,?\$/\1/p" "$work/devices.json" | head -n 1; }
list_of_caps() { awk '/"caps": \[/ { inside = !seen; seen = 1; next } inside && /\]/ { inside = 0 } inside { gsub(/[ ",]/, ""); printf "%s%s", sep, $0; sep = ", " }' "$work/devices.json"; }
# Capabilities that the device should have but does not use, with the reason.
losses() {
    awk -F'"' '/"capability":/ { name = $4; lost = 0 } /"lost": true/ { lost = 1 } lost && /"reason":/ { printf "%s%s (%s)", sep, name, $4; sep = "; "; lost = 0 }' "$work/devices.json"
}

# --- what is trained: a GPT with dropout, accumulation and clipping on a text made here ---
awk 'BEGIN { for (i = 0; i < 700; i++) printf "%d and %d make %d\n", i % 7, i * i % 5, i % 7 + i * i % 5 }' >text.txt
write_config() { # FILE LAYERS CHANNELS CONTEXT STEPS
    cat >"$1" <<JSON
{"model": {"type": "gpt", "layers": $2, "heads": 2, "channels": $3, "context": $4, "dropout": 0.1},
 "data": {"type": "text", "path": "$work/text.txt", "micro_batch": 4, "global_batch": 8, "split": 0.1},
 "optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.1, "clip": 1},
 "schedule": {"type": "cosine", "warmup": 10}, "train": {"steps": $5}, "checkpoint": {"every": $(($5 / 2)), "keep": 0},
 "device": {"tune": "off"}}
JSON
}

# trains NAME OUT ARGUMENTS...: trains within the time that a slow compiler needs. Code 0 and a message are
# not enough: every step must have a line.
trains() {
    local name=$1 to=$2
    shift 2
    on "$name" timeout -k 10 "$hang" "$CLTRAIN" train "$config" --out "$to" precision.mode="$mode" "$@" >"$out" 2>&1 </dev/null
}
# --- two ranks, the first on PoCL, the second on the runtime ---
cat >rank.sh <<'RANK'
mapfile -t settings <"settings.$OMPI_COMM_WORLD_RANK"
exec env "${settings[@]}" "$@"
RANK
has_ranks() { command -v mpirun >/dev/null && [ -f "${CLTRAIN_MODULE_DIR:-}/cltrain_comm_mpi.so" ]; }
trains_together() { # OUT
    settings_of pocl >settings.0
    settings_of "$runtime" >settings.1
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 10 "$hang" mpirun --oversubscribe --bind-to none \
        --mca mpi_yield_when_idle 1 -np 2 bash rank.sh "$CLTRAIN" train "$config" --out "$1" precision.mode="$mode" >"$out" 2>&1 </dev/null
}

step_folder() { echo "$1/checkpoints/step_$2"; }
same_weights() { cmp -s "$(step_folder "$1" "$steps")/model.safetensors" "$(step_folder "$2" "$steps")/model.safetensors" && echo ', weights bit-identical'; }

compared() { # CHECK RUN FIRST SECONDS: against PoCL's run without a break
    local worst text
    if worst=$(apart reference_$mode "$2" "$3" "$(write_tolerances $mode)"); then
        text="largest loss difference $worst in steps $3 to $steps$(same_weights reference_$mode "$2")"
        pass
        checks "$1" pass "$4" "$text"
    else
        fail "$runtime: $1: losses are $worst apart"
        checks "$1" FAIL "$4" "largest loss difference $worst"
    fi
}

train_in() { # MODE
    local start
    mode=$1
    rm -rf reference_$mode here_$mode moved_to_$mode moved_from_$mode
    trains pocl reference_$mode || { fail "PoCL does not train in $mode"; checks "train $mode" FAIL 0 'PoCL itself does not train'; return; }
    start=$SECONDS
    if trains "$runtime" here_$mode; then
        compared "train $mode" here_$mode 1 $((SECONDS - start))
    else
        fail "$runtime does not train in $mode"
        checks "train $mode" FAIL $((SECONDS - start)) "$(tail -n 1 "$out")"
        return
    fi
    start=$SECONDS
    if trains "$runtime" moved_to_$mode --resume "$(step_folder reference_$mode $half)"; then
        compared "resume $mode from PoCL" moved_to_$mode $((half + 1)) $((SECONDS - start))
    else
        fail "$runtime does not resume PoCL's checkpoint in $mode"
        checks "resume $mode from PoCL" FAIL $((SECONDS - start)) "$(tail -n 1 "$out")"
    fi
    start=$SECONDS
    if trains pocl moved_from_$mode --resume "$(step_folder here_$mode $half)"; then
        compared "resume $mode on PoCL" moved_from_$mode $((half + 1)) $((SECONDS - start))
    else
        fail "PoCL does not resume the checkpoint of $runtime in $mode"
        checks "resume $mode on PoCL" FAIL $((SECONDS - start)) "$(tail -n 1 "$out")"
    fi
}

together_in() { # MODE
    local start=$SECONDS
    mode=$1
    rm -rf together_$mode then_$mode
    if ! trains_together together_$mode; then
        fail "PoCL and $runtime do not train together in $mode"
        checks "two ranks $mode" FAIL $((SECONDS - start)) "$(tail -n 1 "$out")"
        return
    fi
    if [ "$(grep -c 'warning: the ranks have different devices or drivers' "$out")" = 1 ]; then pass; else fail "$runtime: one warning of two drivers"; fi
    compared "two ranks $mode" together_$mode 1 $((SECONDS - start))
    start=$SECONDS
    if trains pocl then_$mode --resume "$(step_folder together_$mode $half)"; then
        compared "resume $mode after two ranks" then_$mode $((half + 1)) $((SECONDS - start))
    else
        fail "PoCL does not resume the checkpoint of two ranks in $mode"
        checks "resume $mode after two ranks" FAIL $((SECONDS - start)) "$(tail -n 1 "$out")"
    fi
}

list_devices() {
    local start=$SECONDS code=0 lost
    on "$runtime" timeout -k 10 "$hang" "$CLTRAIN" devices --json >devices.json 2>messages </dev/null || code=$?
    sed -i -n '/^\[/,$p' devices.json
    cat devices.json messages >"$out"
    lost=$(losses)
    put device "$(described name)"
    put kind "$(described kind)"
    put driver "$(described driver)"
    put opencl "$(described version)"
    put units "$(described compute_units)"
    put memory "$(described global_bytes)"
    put group_limit "$(described kernel_group_limit)"
    put capabilities "$(list_of_caps)"
    put lost "$lost"
    if [ $code -eq 0 ] && grep -q '"usable": true' devices.json; then
        pass
        checks devices pass $((SECONDS - start)) "${lost:+without $lost}"
    else
        fail "$runtime: devices ends with $code"
        checks devices FAIL $((SECONDS - start)) "code $code: $(tail -n 1 messages)"
        return 1
    fi
}

verifies() {
    local start=$SECONDS code=0 form=()
    if is_small "$runtime"; then form=(--mode correct); fi
    on "$runtime" timeout -k 10 "$hang" "$CLTRAIN" verify --small ${form[@]+"${form[@]}"} --seed 7 --json verify.json >"$out" 2>&1 </dev/null || code=$?
    cp "$out" "$folder/$runtime/verify.txt"
    if [ $code -eq 0 ] && tail -n 1 "$out" | grep -q -E '^[0-9]{2,} passed, 0 failed'; then
        pass
        checks "verify --small${form:+ ${form[*]}}" pass $((SECONDS - start)) "$(tail -n 1 "$out")"
    else
        fail "$runtime: verify --small ends with $code"
        checks "verify --small${form:+ ${form[*]}}" FAIL $((SECONDS - start)) "code $code: $(tail -n 1 "$out")"
    fi
}

test_runtime() { # NAME
    runtime=$1
    record=$folder/$runtime/record.json.new
    local cold=warm form='GPT of 2 layers, 32 channels, context 16'
    [ -d "$folder/$runtime/cache" ] || cold=cold
    steps=100
    write_config "$runtime.json" 2 32 16 100
    if is_small "$runtime"; then
        note_skip "$runtime is slow and tested in the small form: verify --small --mode correct, GPT of 1 layer for 20 steps"
        steps=20 form='small form: GPT of 1 layer, 16 channels, context 8'
        write_config "$runtime.json" 1 16 8 20
    fi
    config=$work/$runtime.json half=$((steps / 2))
    echo '{' >"$record"
    : >"$record.checks"
    put runtime "$runtime"
    put about "$(cat "$folder/$runtime/about" 2>/dev/null)"
    put cltrain "$("$CLTRAIN" version | head -n 1)${commit:+, commit $commit}"
    put date "$(date -u +%F)"
    put host "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
    put start "$cold"
    put trained "$form, $steps steps"
    if list_devices; then
        for mode in f32 f16 bf16; do
            train_in $mode
            # after train_in, which makes PoCL's run for the comparison
            if [ "$runtime" != pocl ] && has_ranks; then together_in $mode; fi
        done
        has_ranks || note_skip 'two ranks: there is no mpirun or no MPI module'
        verifies # last: it may take half an hour
    fi
    rm -f "$record" "$record.checks"
}

tested=0
if [ "$part" = others ]; then
    for path in "$folder"/*/vendors; do
        name=$(basename "$(dirname "$path")")
        case " $known " in *" $name "*) continue ;; esac
        test_runtime "$name"
        tested=$((tested + 1))
    done
    [ $tested -gt 0 ] || skip_all "$folder holds no runtime beside those of scripts/runtimes.sh"
else
    is_there "$part" || skip_all "$part: $(why_not "$part")"
    test_runtime "$part"
fi
finish
