#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# The life of a rented machine by deploy/cloud-init.yaml, with its own scripts, folders instead of buckets
# and made-up programs `aws` and `gcloud`: it fetches, trains, gets a notice that it will be taken away, and
# copies; the next machine resumes, with the bits of a run that was not interrupted, and switches itself
# off.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v python3 >/dev/null || skip_all 'python3, which reads the file, is not installed'
command -v flock >/dev/null || skip_all 'flock is not installed'
code=0
"$CLTRAIN" devices >devices 2>&1 || code=$?
[ $code -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'

mkdir scripts bin
PYTHONDONTWRITEBYTECODE=1 expect_code 0 python3 "$CLTRAIN_SOURCE_DIR/tests/e2e/deploy_check.py" "$CLTRAIN_SOURCE_DIR/deploy" --files cloud-init.yaml scripts
expect_file scripts/cltrain-copy scripts/cltrain-train scripts/cltrain-ended scripts/cltrain.env
sed -i "s|/var/lib/cltrain|$work/machine|; s|/etc/cltrain.env|$work/cltrain.env|; s|/usr/local/sbin|$work/scripts|" scripts/*
chmod +x scripts/*
# Made-up programs of the clouds: they copy a file, copy all files of a folder except some, and list.
cat >bin/aws <<'SH'
#!/bin/sh
# aws s3 cp --only-show-errors FROM TO
# aws s3 sync --only-show-errors --exclude PATTERN FROM TO
# aws s3 ls --recursive PREFIX
# gcloud storage cp --no-user-output-enabled FROM TO
# gcloud storage rsync --recursive --no-user-output-enabled --exclude=EXPRESSION FROM TO
# gcloud storage ls --recursive PREFIX
[ ! -e "$BUCKETS.away" ] || { echo 'no rights' >&2; exit 1; }
set -eu
program=${0##*/}
place() { echo "$1" | sed "s|^[sg]3*s*://|$BUCKETS/|"; }
# left_out NAME PATTERN: aws compares the whole name with a pattern, gcloud looks for an expression from the name's begin on
left_out() {
    if [ "$program" = aws ]; then
        # shellcheck disable=SC2254
        case $1 in $2) return 0 ;; *) return 1 ;; esac
    fi
    echo "$1" | grep -q -E -e "^($2)"
}
case "$program $1 $2 $3" in
'aws s3 cp --only-show-errors' | 'gcloud storage cp --no-user-output-enabled') cp "$(place "$4")" "$(place "$5")" ;;
'aws s3 ls --recursive') cd "$BUCKETS/here" && find "$(place "$4" | sed "s|^$BUCKETS/here/||")" -type f | sed 's|^|2026-11-30 12:00:00       1234 |' ;;
'gcloud storage ls --recursive') cd "$BUCKETS" && find "$(place "$4" | sed "s|^$BUCKETS/||")" -type f | sed 's|^|gs://|' ;;
'aws s3 sync --only-show-errors' | 'gcloud storage rsync --recursive')
    case $program in
    aws) [ "$4" = --exclude ] && pattern=$5 from=$6 to=$7 ;;
    *) pattern=${5#--exclude=} from=$6 to=$7 ;;
    esac
    to=$(place "$to")
    mkdir -p "$to"
    cd "$(place "$from")"
    find . -type f | sed 's|^[.]/||' | while read -r name; do
        left_out "$name" "$pattern" || { mkdir -p "$to/$(dirname "$name")" && cp "$name" "$to/$name"; }
    done
    ;;
*) echo "unknown: $*" >&2; exit 2 ;;
esac
SH
cp bin/aws bin/gcloud
printf '#!/bin/sh\necho "$*" >>%s/systemctl\n' "$work" >bin/systemctl
chmod +x bin/*
export PATH=$work/bin:$PATH BUCKETS=$work/buckets
# BUCKETS is for the made-up programs; a hook starts them with a cleaned environment.
sed -i "2s|^|BUCKETS=$work/buckets\n|" bin/aws bin/gcloud

net mlp train.steps=4000000 train.log_every=1 checkpoint.minutes=0 >net.json
mkdir bundle && cp net.json bundle/ && ln -s "$CLTRAIN" bundle/cltrain
# settings STORE WORD...: the settings of a machine
settings() {
    sed -e "s|\${store}|$1|; s|\${config}|net.json|; s|\${options}|${*:2}|; s|\${price_per_hour}|0.5|" scripts/cltrain.env >cltrain.env
}
copies() { expect_code "$1" scripts/cltrain-copy "$2"; }
# after CODE WANTED: the action after the training has ended with CODE must be WANTED
after() {
    rm -f systemctl
    EXIT_CODE=exited EXIT_STATUS=$1 expect_code 0 scripts/cltrain-ended
    if [ "$(cat systemctl 2>/dev/null)" = "$2" ]; then pass; else fail "after code $1: systemctl '$(cat systemctl 2>/dev/null)'"; fi
}
for store in s3://here/first gs://here/first s3://here; do
    there=buckets/${store#*://}
    rm -rf buckets machine straight notice
    mkdir -p "$there/results" machine
    tar -C bundle -czf "$there/cltrain.tar.gz" .

    # A machine without rights to the bucket begins nothing: its training would replace the one in the
    # bucket.
    settings "$store" cloud.notice_file="$work/notice"
    touch buckets.away
    copies 1 fetch
    expect_absent machine/fetched
    rm buckets.away

    copies 0 fetch
    scripts/cltrain-train >first.out 2>&1 &
    process=$!
    await_from $process has_updates machine/results/run 30
    touch notice
    code=0
    await_end $process
    wait $process || code=$?
    cp first.out "$out"
    if [ $code -eq 75 ]; then pass; else fail "the first machine ended with $code"; fi
    last=$(sed -n 's/.*"event":"stopped","step":\([0-9]*\),.*/\1/p' machine/results/run/metrics.jsonl)
    expect_file "$there/results/run/checkpoints/step_$last/manifest.json" # by the hook, before the end
    copies 0 save
    expect_same machine/results/run/metrics.jsonl "$there/results/run/metrics.jsonl"
    grep -q '"cost"' machine/results/run/metrics.jsonl || fail 'the price did not reach the program'
    after 75 ''

    rm -rf machine && mkdir machine
    settings "$store" --max-steps $((last + 20))
    # Older checkpoints, one that was never complete, and one that was being written: the newest three
    # complete ones are fetched.
    steps=$there/results/run/checkpoints
    for step in 1 2 3 4; do cp -r $steps/step_"$last" $steps/step_$step; done
    cp -r $steps/step_"$last" $steps/step_$((last + 1)) && rm $steps/step_$((last + 1))/manifest.json
    copies 0 fetch
    find machine/results/run/checkpoints -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -t _ -k 2 -n >"$out"
    if [ "$(tr '\n' ' ' <"$out")" = "step_3 step_4 step_$last " ]; then pass; else fail 'not the newest three checkpoints were fetched'; fi
    mkdir machine/results/run/checkpoints/step_9.tmp-1 && touch machine/results/run/checkpoints/step_9.tmp-1/model.safetensors
    copies 0 save
    expect_absent $steps/step_9.tmp-1
    copies 0 fetch # once is enough: a machine that starts again keeps what it has
    expect_code 0 scripts/cltrain-train
    expect_text 'resumed'
    expect_code 0 "$CLTRAIN" train net.json --out straight --max-steps $((last + 20))
    expect_same "$there/results/run/checkpoints/step_$((last + 20))/model.safetensors" "straight/checkpoints/step_$((last + 20))/model.safetensors"
    after 0 poweroff
done
for code in 9 10; do after $code ''; done
for code in 1 2 3 8 70; do after $code poweroff; done
rm systemctl
EXIT_CODE=killed EXIT_STATUS=KILL expect_code 0 scripts/cltrain-ended
expect_file systemctl
rm systemctl
expect_code 0 scripts/cltrain-ended # the files did not come from the bucket, so no training has begun: systemd tries again
expect_absent systemctl
settings ftp://here
copies 2 fetch
finish
