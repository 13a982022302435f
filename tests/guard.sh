#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: guard.sh SECONDS COMMAND...
# Runs a test and ends it when it must have hung: after SECONDS, about five times what the longest test takes on one core that it shares
# with another job, times CLTRAIN_TEST_PATIENCE (1) for machines that are slower still. No other limit of time decides about a test. A
# script of tests gives each of its commands CLTRAIN_TEST_HANG seconds, a little less, so that it can name the command that hangs.
# The last line tells the processor time of the test and all that it has waited for, in build/Testing/Temporary/LastTest.log.
set -u
patience=${CLTRAIN_TEST_PATIENCE:-1}
case $patience in
'' | *[!0-9]* | 0*) echo "CLTRAIN_TEST_PATIENCE=$patience is not a whole number from 1" >&2; exit 2 ;;
esac
seconds=$(($1 * patience))
shift
export CLTRAIN_TEST_HANG=$((seconds - seconds / 6))
# Nor is a device's answer too slow: a lost capability would change what a test sees. Tests of drivers that hang set limits of their own.
export CLTRAIN_PROBE_SECONDS=${CLTRAIN_PROBE_SECONDS:-$((600 * patience))}
# On a machine of a cloud, notices are looked for only by the tests of notices.
export CLTRAIN_CLOUD_PROVIDER=${CLTRAIN_CLOUD_PROVIDER:-off}
# What devices do is looked at by the tests of monitoring alone: the figures differ from run to run, and so would files that are compared.
export CLTRAIN_MONITOR_SECONDS=${CLTRAIN_MONITOR_SECONDS:-0}
TIMEFORMAT='processor time: %U s user, %S s system'
time timeout -k 10 "$seconds" "$@"
code=$?
[ $code -ne 124 ] || echo "FAIL: the test hangs: it was ended after $seconds s (CLTRAIN_TEST_PATIENCE=$patience)"
exit $code
