# SPDX-License-Identifier: Apache-2.0
#
# What the tests that run the kernels' PTX on the host share: cltrain's only device is tests/ptx/driver.h, an OpenCL driver that
# simulates an NVIDIA GPU. Sourced after lib.sh; skips the whole test if clang has no NVPTX target.

driver=$CLTRAIN_BUILD_DIR/tests/ptx_driver.so
[ -f "$driver" ] || skip_all "the simulated driver was not built (CL/cl_icd.h is missing)"
clang=
for name in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if command -v "$name" >/dev/null && "$name" --print-targets 2>/dev/null | grep -q nvptx64; then
        clang=$name
        break
    fi
done
[ -n "$clang" ] || skip_all "there is no clang with an NVPTX target"

# OpenCL's built-in functions for that target, which clang does not provide.
"$clang" -x cl -cl-std=CL1.2 -Xclang -include -Xclang opencl-c-base.h -target nvptx64-nvidia-nvcl -Xclang -target-cpu \
    -Xclang sm_70 -O1 -w -emit-llvm -c "$CLTRAIN_SOURCE_DIR/tests/ptx/builtins.cl" -o builtins.bc >"$out" 2>&1 || {
    sed 's/^/    | /' "$out"
    skip_all "$clang does not compile OpenCL C for NVPTX"
}
mkdir icd
echo "$driver" >icd/ptx.icd
export OCL_ICD_VENDORS=$work/icd OCL_ICD_FILENAMES=$driver
export CLTRAIN_PTX_CLANG=$clang CLTRAIN_PTX_BUILTINS=$work/builtins.bc CLTRAIN_PTX_REPORT=$work/report
export CLTRAIN_CACHE_DIR=$work/cache
mkdir programs
export CLTRAIN_PTX_CACHE=$work/programs
# The checker's pattern for memory without a value (engine/verify): no kernel may read it.
export CLTRAIN_PTX_POISON=0x7ff1fff3

# verified LEAST PATTERN OPTION...: all checks with that name pass, at least LEAST of them, and no rule was violated.
verified() {
    local least=$1 pattern=$2 passed
    shift 2
    rm -f report
    expect_code 0 "$CLTRAIN" verify -t "$pattern" --seed "${seed:-3}" "$@"
    if [ -s report ]; then fail "$pattern: $(head -n 3 report)"; else pass; fi
    passed=$(sed -n 's/^\([0-9]*\) passed, 0 failed.*/\1/p' "$out")
    if [ "${passed:-0}" -ge "$least" ]; then pass; else fail "$pattern: ${passed:-0} checks passed, at least $least expected"; fi
    echo "$pattern: ${passed:-0} checks"
}

# The counters of the following commands are written to the file counts; `counted` reads it.
count() {
    rm -f counts
    export CLTRAIN_PTX_COUNTS=$work/counts
}

# counted NAME KERNELS "COUNTER..." LIMIT: kernels whose names match moved at most LIMIT % of what their lanes needed. read and
# write: sectors of global memory; load, store and matrix: passes over the banks of local memory (tests/ptx/driver_command.c).
counted() {
    local name=$1 kernels=$2 counters=$3 limit=$4 worst
    worst=$(awk -v kernels="$kernels" -v counters=" $counters " '
        $1 ~ kernels {
            for (i = 2; i < NF - 1 && $i != "options"; i++)
                if (index(counters, " " $i " ")) { moved[$1] += $(i + 1); ideal[$1] += $(i + 2) }
        }
        END {
            for (k in moved) {
                if (ideal[k] > 0) seen++
                if (ideal[k] > 0 && moved[k] / ideal[k] > most) { most = moved[k] / ideal[k]; which = k }
            }
            if (seen) printf "%d %d %s\n", seen, 100 * most + 0.999, which
        }' counts)
    if [ -z "$worst" ]; then
        fail "$name: nothing was counted of $kernels"
        return
    fi
    echo "$name: $(cut -d' ' -f1 <<<"$worst") kernels, at most $(cut -d' ' -f2 <<<"$worst") % ($(cut -d' ' -f3 <<<"$worst"))"
    if [ "$(cut -d' ' -f2 <<<"$worst")" -le "$limit" ]; then pass; else fail "$name: $worst, limit $limit %"; fi
}

# least NAME KERNELS BYTES LIMIT: the launch that moves most, of the kernels whose names match, reads and
# writes at most LIMIT % of the sectors in BYTES, which is the minimum: every element read and written once.
least() {
    local name=$1 kernels=$2 bytes=$3 limit=$4 percent
    percent=$(awk -v kernels="$kernels" -v bytes="$bytes" '
        $1 ~ kernels {
            moved = 0
            for (i = 2; i < NF - 1 && $i != "options"; i++)
                if ($i == "read" || $i == "write") moved += $(i + 1)
            if (moved > most) most = moved
        }
        END { printf "%d\n", 100 * most * 32 / bytes + 0.999 }' counts)
    echo "$name: $percent % of the least possible"
    if [ "$percent" -ge 100 ] && [ "$percent" -le "$limit" ]; then pass; else fail "$name: $percent %, limit $limit %"; fi
}
