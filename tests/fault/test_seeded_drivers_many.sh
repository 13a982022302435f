#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# test_seeded_drivers.sh with all its seeds.
export CLTRAIN_SEEDS=all
. "$(dirname "${BASH_SOURCE[0]}")/test_seeded_drivers.sh"
