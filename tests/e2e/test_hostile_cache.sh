#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 12
#
# A cache that somebody else may have written, or whose files are damaged: nothing in it is trusted, the
# results are the same, and files that are not the user's own are not changed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
cd "$work" || exit 1
export CLTRAIN_CACHE_DIR=$work/cache
verify() { expect_code 0 "$CLTRAIN" verify -t relu.tail --small --mode correct --seed 3 --json "$1"; }
# results FILE: the lines that do not depend on time
results() { sed -e '/"ms":/d' -e '/_xxh64/d' "$1"; }
same() {
    verify now.json
    expect_same <(results first.json) <(results now.json)
}
verify first.json
cp -r cache good
if [ "$(find cache -type f -size +0 | wc -l)" -ge 2 ]; then pass; else fail 'no cache was written'; fi

# refused MESSAGE: checks that the folder is not used, and that nothing in it has changed
refused() {
    find cache -type f -exec sha256sum {} + | sort >before
    same
    expect_text "$1"
    expect_same before <(find cache -type f -exec sha256sum {} + | sort)
}
chmod 777 cache/answers cache/programs cache/listing
refused "other users may write into '$work/cache/answers'"
rm -r cache
cp -r good cache
if [ "$(id -u)" -eq 0 ]; then
    chown -R 12345 cache
    refused "'$work/cache/answers' belongs to the user with the number 12345"
else
    note_skip 'only root can give files to another user'
fi

# damage COMMAND: changes every file of the cache by the command, which gets the file's name
damage() {
    rm -rf cache
    cp -r good cache
    find cache -type f -size +0 | while read -r file; do "$1" "$file"; done
    same
}
flip() { # one bit in the middle
    local at=$(($(stat -c %s "$1") / 2))
    printf "\\x$(printf '%02x' $((0x$(dd if="$1" bs=1 skip=$at count=1 2>/dev/null | od -An -tx1 | tr -d ' ') ^ 4)))" |
        dd of="$1" bs=1 seek=$at conv=notrunc 2>/dev/null
}
cut_off() { truncate -s $(($(stat -c %s "$1") / 2)) "$1"; }
zeros() { truncate -s 0 "$1" && truncate -s 300 "$1"; }
more() { printf '{"more": 1}' >>"$1"; }
for how in flip cut_off zeros more; do
    damage $how
done
finish
