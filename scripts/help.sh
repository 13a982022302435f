# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The scripts source this file first: with --help as the first argument a script prints the comment at its
# head, and ends.

case ${1:-} in
-h | --help)
    sed -n '4,$ { /^#/!q; s/^# \{0,1\}//; p }' "$0"
    exit 0
    ;;
esac
