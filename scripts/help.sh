# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the scripts before anything else: with --help as the first argument they print the comment at their head, and end.

case ${1:-} in
-h | --help)
    sed -n '4,$ { /^#/!q; s/^# \{0,1\}//; p }' "$0"
    exit 0
    ;;
esac
