#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-parts: kernels probes
#
# test_seeded_drivers.sh with all its seeds: faults in the kernels of plans, and faults that a child process
# meets.
case ${1:-} in
kernels) export CLTRAIN_SEEDS='^(build|kernel|group|launch|dead|event|wide|gpt|limit|clblast)' ;;
probes) export CLTRAIN_SEEDS='^(child|tested)' ;;
*) export CLTRAIN_SEEDS=all ;;
esac
. "$(dirname "${BASH_SOURCE[0]}")/test_seeded_drivers.sh"
