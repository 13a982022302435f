#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 4
#
# Every C source is formatted as .clang-format says; and the check itself notices a file that is not.
set -u
root=${CLTRAIN_SOURCE_DIR:?set it to the source folder}

"$root/scripts/format.sh"
case $? in
0) ;;
3) echo "SKIP: the version of clang-format that judges is not installed"; exit 77 ;;
*) echo "FAIL: run scripts/format.sh --fix"; exit 1 ;;
esac

copy=$(mktemp -d) && trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/scripts" "$copy/engine" "$copy/cl" "$copy/comm" "$copy/cli" "$copy/tests"
cp "$root/scripts/format.sh" "$root/scripts/help.sh" "$copy/scripts/" && cp "$root/.clang-format" "$copy/"
printf 'int f(void);\nint f( void ){return 1;}\n' >"$copy/engine/bad.c"
"$copy/scripts/format.sh" >/dev/null 2>&1
[ $? -eq 1 ] || { echo "FAIL: a badly laid out file was not noticed"; exit 1; }
"$copy/scripts/format.sh" --fix && "$copy/scripts/format.sh" || { echo "FAIL: --fix did not fix it"; exit 1; }
echo "ok"
