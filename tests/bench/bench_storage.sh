#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A large object to SeaweedFS on this machine and back: the client of engine/storage/ (4 parts at a time, as
# a training uploads) beside boto3's transfer manager, and beside curl with an address that is signed
# beforehand (one request, whose body is not signed). They take turns, so that other load on the machine
# affects all three. Reported are medians, ratios and processor times. With TMPDIR=/dev/shm no disk takes
# part.
# usage: CLTRAIN=build/cltrain CLTRAIN_SEAWEEDFS=weed BENCH_PYTHON=python-with-boto3 tests/bench/bench_storage.sh [ROUNDS [MIB]]
set -u
rounds=${1:-5} mib=${2:-1024}
CLTRAIN=$(readlink -f "${CLTRAIN:?set it to the cltrain program}")
weed=${CLTRAIN_SEAWEEDFS:?set it to the program weed of SeaweedFS}
python=${BENCH_PYTHON:?set it to a python with boto3}
CLTRAIN_BUILD_DIR=$(dirname "$CLTRAIN")
CLTRAIN_SOURCE_DIR=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")
export CLTRAIN CLTRAIN_BUILD_DIR CLTRAIN_SOURCE_DIR
. "$CLTRAIN_SOURCE_DIR/tests/e2e/storage_lib.sh"
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
[ -x "$tool" ] || { echo "there is no $tool: build the target object_storage" >&2; exit 2; }
seaweedfs "$weed"
trap 'kill -9 "$seaweedfs_process" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
head -c "${mib}M" /dev/urandom >large

cat >boto.py <<'END'
import sys
import time

import boto3

s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
begin, used = time.monotonic(), time.process_time()
s3.upload_file("large", "bucket", "boto") if sys.argv[2] == "up" else s3.download_file("bucket", "boto", "back")
print(time.monotonic() - begin, time.process_time() - used)
END
cat >sign.py <<'END'
import sys

import boto3

s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
print(s3.generate_presigned_url(sys.argv[2], {"Bucket": "bucket", "Key": "curl"}))
END
where_up=$("$python" sign.py "$AWS_ENDPOINT_URL_S3" put_object) where_down=$("$python" sign.py "$AWS_ENDPOINT_URL_S3" get_object)
TIMEFORMAT='%R %U %S'
# seconds COMMAND...: prints how long the command took, and how long it used the processor
seconds() {
    { time "$@" >/dev/null 2>errors; } 2>took || { echo "failed: $*" >&2; cat errors >&2; exit 1; }
    awk '{ print $1, $2 + $3 }' took
}
round() { # WHICH WAY
    case $1-$2 in
    cltrain-up) seconds "$tool" bucket upload cltrain large ;;
    cltrain-down) seconds "$tool" bucket download cltrain back ;;
    boto3-*) "$python" boto.py "$AWS_ENDPOINT_URL_S3" "$2" ;;
    curl-up) seconds curl -sS --fail -H 'Expect:' -T large "$where_up" ;;
    curl-down) seconds curl -sS --fail -o back "$where_down" ;;
    esac
}
for ((i = 0; i < rounds; i++)); do
    for side in cltrain boto3 curl; do
        for way in up down; do
            rm -f back
            round $side $way >>"$side-$way" || exit 1
            [ $way = up ] || cmp large back || exit 1
        done
    done
done
median() { sort -g -k "$2,$2" "$1" | awk -v n="$2" '{ v[NR] = $n } END { print v[int((NR + 1) / 2)] }'; }
for way in up down; do
    awk -v way=$way -v mib="$mib" -v a="$(median cltrain-$way 1)" -v b="$(median boto3-$way 1)" -v c="$(median curl-$way 1)" \
        -v used="$(for side in cltrain boto3 curl; do median $side-$way 2; done | paste -s -d ' ')" 'BEGIN {
        printf "%s, %d MiB: cltrain %.2f s (%.0f MiB/s), boto3 %.2f s, curl %.2f s; cltrain is %.2f times as fast as boto3, %.2f times as curl\n",
               way, mib, a, mib / a, b, c, b / a, c / a
        split(used, u, " ")
        printf "    on the processor: cltrain %.2f s, boto3 %.2f s, curl %.2f s\n", u[1], u[2], u[3] }'
done
