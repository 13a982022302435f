#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: long
#
# test_kill.sh with 50 kills.
export CLTRAIN_KILLS=50
. "$(dirname "${BASH_SOURCE[0]}")/test_kill.sh"
