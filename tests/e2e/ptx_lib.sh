# SPDX-License-Identifier: Apache-2.0
#
# What the tests share that examine kernels with NVIDIA's assembler, without a device: the tools, compiling a kernel file to PTX and
# assembling it with ptxas, registers and spills from its report. Sourced after lib.sh; skips the whole test if a tool is missing.

command -v ptxas >/dev/null || PATH=$PATH:/usr/local/cuda/bin # where its toolkit lies
command -v ptxas >/dev/null || skip_all "ptxas is not installed (CUDA toolkit)"
clang=
for name in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if command -v "$name" >/dev/null && "$name" --print-targets 2>/dev/null | grep -q nvptx64; then
        clang=$name
        break
    fi
done
[ -n "$clang" ] || skip_all "there is no clang with an NVPTX target"
kernels=$CLTRAIN_BUILD_DIR/kernels
ampere="80 86 89 90" # generations that know the instructions of sm_80
if ptxas --help | grep -q sm_120; then ampere="$ampere 120"; fi

# ptx_assemble FILE GENERATION "ARCH..." OPTION...: writes PTX of the kernel file for a generation to k.ptx and ptxas's reports for
# each architecture to k.log. Fails also for calls of undefined functions and for private arrays that are not kept in registers.
ptx_assemble() {
    local file=$1 generation=$2 archs=$3 arch
    shift 3
    rm -f k.log
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -include "$CLTRAIN_SOURCE_DIR/tests/e2e/nvptx_builtins.clh" \
        -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang "sm_$generation" -Xclang -target-feature -Xclang +ptx75 -O3 \
        -I"$kernels" -D__NV_CL_C_VERSION=1 "$@" -S "$kernels/$file" -o k.ptx >"$out" 2>&1 || return 1
    if grep -E '\.extern \.func|ld\.local|st\.local' k.ptx >>"$out"; then return 1; fi
    for arch in $archs; do
        ptxas -arch="sm_$arch" -v k.ptx -o k.cubin >>k.log 2>&1 || { cat k.log >>"$out"; return 1; }
    done
}

# ptx_registers PATTERN: registers of the kernels whose names match, by architecture: "139 139 147". Fails when any kernel of the
# file uses the stack.
ptx_registers() {
    awk -v pattern="$1" '
        /Function properties for/ { kernel = $NF }
        /bytes stack frame/ { if ($1 + 0 > 0 || $5 + 0 > 0) { print "spills in", kernel; bad = 1 } }
        /Used [0-9]+ registers/ && kernel ~ pattern { match($0, /Used [0-9]+/); n = n " " substr($0, RSTART + 5, RLENGTH - 5) }
        END { print substr(n, 2); exit bad }' k.log
}
