# SPDX-License-Identifier: Apache-2.0
#
# What the tests with NVIDIA's own compiler share: its folder, and the simulated device that uses it instead
# of clang (tests/ptx/driver_nvidia.c). Sourced after lib.sh; skips the whole test where the compiler is
# missing.

[ -n "${CLTRAIN_NVIDIA_COMPILER:-}" ] || [ -z "${CLTRAIN_RUNTIMES:-}" ] || CLTRAIN_NVIDIA_COMPILER=$CLTRAIN_RUNTIMES/nvidia-compiler/lib
[ -e "${CLTRAIN_NVIDIA_COMPILER:-}/libnvidia-nvvm.so.4" ] ||
    skip_all "CLTRAIN_NVIDIA_COMPILER names no folder with NVIDIA's compiler; scripts/runtimes.sh FOLDER nvidia-compiler makes it"
export CLTRAIN_PTX_NVIDIA=$CLTRAIN_NVIDIA_COMPILER
