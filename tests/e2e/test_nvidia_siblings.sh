#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 6
#
# The libraries that NVIDIA's OpenCL library opens by name (cl/drivers/siblings.h), simulated: the driver's
# library offers PoCL's platform if libcuda.so.1 can be opened by name and has the same version. cltrain
# finds them where the dynamic linker does not, takes the right version where several are installed, and
# doctor names those that are missing or do not fit.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

unset OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_VENDOR_PATH CLTRAIN_ICD_MADE CLTRAIN_ICD_REPAIR LD_LIBRARY_PATH
export CLTRAIN_CACHE_DIR=$work/cache CLTRAIN_ICD_SYSTEM=$work/system
tests=$CLTRAIN_BUILD_DIR/tests
"$CLTRAIN" doctor 2>/dev/null | grep -q '^ok .*PoCL\|^ok .*Portable Computing' || skip_all 'PoCL offers no device here'

# driver FOLDER VERSION NAME...: libraries of that version, each under its own name and under the version's.
driver() {
    local folder=$1 version=$2 name
    mkdir -p "$folder"
    shift 2
    for name in "$@"; do
        case $name in
        libnvidia-opencl.so.1) cp "$tests/nvidia_driver.so" "$folder/${name%.so*}.so.$version" ;;
        libcuda.so.1) cp "$tests/nvidia_cuda.so" "$folder/${name%.so*}.so.$version" ;;
        *nvvm*) cp "$tests/nvidia_nvvm.so" "$folder/${name%.so*}.so.$version" ;;
        *) cp "$tests/nvidia_ptxjitcompiler.so" "$folder/${name%.so*}.so.$version" ;;
        esac
        ln -s "${name%.so*}.so.$version" "$folder/$name"
    done
}
devices() { "$CLTRAIN" devices --again 2>&1; }

# Another driver in that folder would be PoCL itself: only the simulated driver may be listed.
driver right 580.65.06 libnvidia-opencl.so.1 libcuda.so.1 libnvidia-ptxjitcompiler.so.1 libnvidia-nvvm.so.4
mkdir system
echo "$work/right/libnvidia-opencl.so.1" >system/nvidia.icd
export OCL_ICD_VENDORS=$work/system

# The linker does not find libcuda by its name, cltrain does; every process of a command does, and doctor says so.
devices >"$out"
expect_text '^0:0 .*cpu'
expect_code 0 "$CLTRAIN" doctor
expect_text "^note .*cltrain loads $work/right/libcuda.so.1 for NVIDIA's OpenCL library" "cltrain loads $work/right/libnvidia-nvvm.so.4" '^healthy'
reject_text '^ERROR'
expect_code 0 "$CLTRAIN" verify --small -t 'relu*' --mode correct --jobs 2
expect_text ', 0 failed'
expect_code 0 "$CLTRAIN" train "$CLTRAIN_SOURCE_DIR/configs/mlp-regression.json" --max-steps 2 --out run

# The compiler and the assembler are found, too, and so are the siblings of a library that a variable names.
expect_code 0 env SIMULATED_NEEDS_ALL=1 "$CLTRAIN" devices --again
expect_code 0 env OCL_ICD_VENDORS="$work/right/libnvidia-opencl.so.1" "$CLTRAIN" devices --again
expect_text '^0:0 .*cpu'

# If the linker finds the very same files, nothing is loaded in advance.
expect_code 0 env LD_LIBRARY_PATH="$work/right" "$CLTRAIN" doctor
expect_text '^healthy'
reject_text 'cltrain loads'

# A stale library of another version in the linker's path, as in images made on another machine.
driver stale 535.1.2 libcuda.so.1 libnvidia-nvvm.so.4
export LD_LIBRARY_PATH=$work/stale
devices >"$out"
expect_text '^0:0 .*cpu'
expect_code 0 "$CLTRAIN" doctor
expect_text "cltrain loads $work/right/libcuda.so.1" '^healthy'
reject_text 535.1.2
rm right/libcuda.so*
expect_code 4 "$CLTRAIN" devices --again
"$CLTRAIN" doctor >"$out" 2>&1
expect_text "^ERROR .*$work/stale/libcuda.so.1 has version 535.1.2, but NVIDIA's OpenCL library, which opens it, has version 580.65.06: then the driver offers no platform"
unset LD_LIBRARY_PATH

# No such library at all; a compiler that is missing, in both arrangements of the driver.
"$CLTRAIN" doctor >"$out" 2>&1
expect_text '^ERROR .*libcuda.so.1, which .* opens by name, is not installed: without it the driver offers no platform'
driver right 580.65.06 libcuda.so.1
rm right/libnvidia-nvvm.so*
expect_code 0 "$CLTRAIN" doctor
expect_text '^ERROR .*libnvidia-nvvm.so.4, which .* is not installed: without it no kernel can be built, and the build log is empty' '^healthy'
cp "$tests/nvidia_nvvm.so" right/libnvidia-compiler.so.580.65.06
expect_code 0 "$CLTRAIN" doctor
reject_text 'libnvidia-nvvm.so.4'

# The kernel module has another version than the libraries. It needs a mount of its own over /proc/driver.
if unshare -m true 2>/dev/null && [ -d /proc/driver ]; then
    mounted() {
        unshare -m sh -c 'mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && printf "%s\n" "$1" >/proc/driver/nvidia/version &&
            exec "$2" doctor' sh "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $1  Release Build  (root@host)" "$CLTRAIN" >"$out" 2>&1
    }
    mounted 580.95.05
    expect_text "^ERROR .*$work/right/libnvidia-opencl.so.1 has version 580.65.06, but the kernel module has version 580.95.05"
    mounted 580.65.06
    expect_text '^healthy'
    reject_text 'kernel module'
else
    note_skip 'no mount name space of its own: the version of the kernel module was not simulated'
fi
finish
