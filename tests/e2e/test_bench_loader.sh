#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 3
#
# `bench loader`: a config's own data goes through its loader's threads without a device; a row for each
# number of threads, consistent numbers, a record that --compare accepts, and the same errors as at the
# start of a training.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export OCL_ICD_VENDORS=$work/none # no driver: the loader needs none
for ((i = 0; i < 4000; i++)); do echo "line $i of the text, which is $((i * i % 97))"; done >text
net gpt model.context=32 data.global_batch=12 optimizer.type=adamw optimizer.learning_rate=0.002 train.steps=2 >net.json
expect_code 0 "$CLTRAIN" bench loader net.json --seconds 0.05 --json record.json
expect_text '^text: ' '^threads +samples/s' '^ +1 +[0-9]'
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
expect_awk "rows for 1, 2, 4 ... threads up to $cores" '/"threads"/ { gsub(/,/, ""); if ($2 != last * 2 && $2 != cores && last) bad = 1; last = $2 } END { exit bad || last != cores }' "cores=$cores" record.json
# A sample is 32 byte tokens and, for each, the token that follows, as i32.
expect_awk 'bytes of a sample, or a rate that is nothing' '/"sample_bytes"/ { gsub(/,/, ""); if ($2 != 160) bad = 1 } /"value"/ { if ($2 + 0 <= 0) bad = 1 } END { exit bad }' record.json

expect_code 0 "$CLTRAIN" bench loader net.json --seconds 0.01 data.workers=3 --json one.json
[ "$(grep -c '"name"' one.json)" = 1 ] && grep -q '"name": "3 threads"' one.json && pass || fail 'data.workers=3 is not the only number of threads'
sed -E 's/"value": [0-9.e+]+/"value": 1e-3/' one.json >slow.json
sed -E 's/"value": [0-9.e+]+/"value": 1e15/' one.json >fast.json
expect_code 0 "$CLTRAIN" bench loader net.json --seconds 0.01 data.workers=3 --compare slow.json
expect_code 1 "$CLTRAIN" bench loader net.json --seconds 0.01 data.workers=3 --compare fast.json
expect_text '1 of 1 measurements are more than 10 % slower'

expect_code 0 "$CLTRAIN" bench loader net.json --seconds 0.01 data.workers=1 data.micro_batch=auto data.global_batch=0 # what a usual GPU would take
expect_code 3 "$CLTRAIN" bench loader net.json data.path=absent
expect_text "'absent'"
expect_code 2 "$CLTRAIN" bench loader net.json data.micro_batch=5
expect_code 2 "$CLTRAIN" bench loader
finish
