#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 25 ctest-optimise: no
#
# Notices of clouds (engine/cloud/), against services that metadata_double.py simulates, more strictly than
# the real ones. Each kind of notice ends a run with code 75 and a checkpoint, from which the run resumes
# with the same bits as without a notice; hints make it save and continue; tokens expire; services are old,
# mute, garbled or missing; a machine outside of clouds sends nothing. NOTICE_ROUNDS=N repeats the notices
# at N moments (1), NOTICE_KINDS='gcp url' makes those of these kinds and nothing else.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v python3 >/dev/null || skip_all 'python3, which simulates the services, is not installed'
unset AWS_EC2_METADATA_SERVICE_ENDPOINT AWS_EC2_METADATA_DISABLED AWS_EC2_METADATA_V1_DISABLED AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE
unset GCE_METADATA_HOST CLTRAIN_CLOUD_PROVIDER
export http_proxy=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9 # requests go past proxies
net mlp train.steps=4000000 train.log_every=1 checkpoint.minutes=0 cloud.poll_seconds=0.1 >net.json

# double KIND: starts a service; $address is its address, and files in the folder of its name decide its
# answers
double() {
    mkdir "$1"
    python3 "$CLTRAIN_SOURCE_DIR/tests/e2e/metadata_double.py" "${1%%.*}" "$1" &
    await_from $! test -s "$1/port"
    address=http://127.0.0.1:$(cat "$1/port")
}
obeys() { # KIND: ends a service, which no request has broken a rule of
    touch "$1/quit"
    expect_absent "$1/violations"
    [ ! -e "$1/violations" ] || head -n 3 "$1/violations"
}
# begin RUN OPTION...: a run that does not end by itself, in the background
begin() {
    begin_any "$@"
    await_from $process has_updates "$1" 30
}
begin_any() { # the same, and it may end before its first step
    "$CLTRAIN" train net.json --out "$@" >"$1.out" 2>&1 &
    process=$!
}
ends() { # RUN CODE
    local code=0
    await_end $process
    wait $process || code=$?
    cp "$1.out" "$out"
    if [ $code -eq "$2" ]; then pass; else fail "$1: code $code instead of $2"; fi
}
has_event() { grep -q "\"event\":\"$2\".*$3" "$1/metrics.jsonl"; } # RUN EVENT PATTERN
expect_event() { if has_event "$@"; then pass; else fail "$1 has no event $2 with $3"; fi; }

# went_on RUN: checks that an interrupted run has computed the same as one without an interruption
went_on() {
    local last
    last=$(sed -n 's/.*"event":"stopped","step":\([0-9]*\),.*/\1/p' "$1/metrics.jsonl")
    expect_code 0 "$CLTRAIN" ckpt verify "$1"
    expect_code 0 "$CLTRAIN" train --resume "$1" cloud.provider=off --max-steps $((last + 20))
    expect_code 0 "$CLTRAIN" train net.json --out "$1.straight" --max-steps $((last + 20))
    expect_same "$1/checkpoints/step_$((last + 20))/model.safetensors" "$1.straight/checkpoints/step_$((last + 20))/model.safetensors"
    rm -rf "$1" "$1.straight"
}

for kind in ${NOTICE_KINDS:-aws gcp azure alibaba url file}; do
    for round in $(seq "${NOTICE_ROUNDS:-1}"); do
        name=$kind.$round
        rule=("cloud.provider=$kind")
        case $kind in
        file)
            mkdir "$name"
            rule+=("cloud.notice_file=$name/notice")
            ;;
        url)
            double "$name"
            rule+=("cloud.notice_url=$address/?key=secret")
            ;;
        *)
            double "$name"
            rule+=("cloud.endpoint=$address")
            ;;
        esac
        begin "run_$name" "${rule[@]}"
        if [ "${NOTICE_ROUNDS:-1}" -gt 1 ]; then sleep 0.$((RANDOM % 10))$((RANDOM % 10)); fi
        touch "$name/notice"
        ends "run_$name" 75
        expect_event "run_$name" notice "\"provider\":\"$kind\",\"kind\":\"stop\""
        expect_event "run_$name" stopped 'a notice that a machine will be taken away'
        went_on "run_$name"
        [ $kind = file ] || obeys "$name"
    done
done

[ -z "${NOTICE_KINDS:-}" ] || finish

# Other forms in which clouds announce an end, before the first step: nothing is trained, and the code is
# the same.
for rule in 'aws the auto-scaling group ends this instance' 'gcp maintenance of the host: TERMINATE_ON_HOST_MAINTENANCE' 'azure Redeploy has begun \(D\)'; do
    kind=${rule%% *}
    double $kind.end
    touch $kind.end/end
    begin_any run_end "cloud.provider=$kind" "cloud.endpoint=$address"
    ends run_end 75
    expect_text "notice of $kind: ${rule#* }; the run finishes its step"
    rm -rf run_end
    obeys $kind.end
done

# Hints: the run saves and goes on.
for rule in 'aws hint' 'aws maintenance' 'gcp hint' 'azure hint'; do
    kind=${rule% *}
    told=$kind.${rule#* }
    double "$told"
    touch "$told/${rule#* }"
    begin run_hint "cloud.provider=$kind" "cloud.endpoint=$address"
    await_from $process has_event run_hint saved .
    touch run_hint/STOP
    ends run_hint 75
    expect_event run_hint notice "\"provider\":\"$kind\",\"kind\":\"save\""
    expect_event run_hint stopped STOP
    if [ "$(grep -c '"event":"notice"' run_hint/metrics.jsonl)" -eq 1 ]; then pass; else fail "$kind: one hint was told more than once"; fi
    rm -rf run_hint
    obeys "$told"
done

# The machine's firmware identifies the cloud; an expired token is renewed; an old service works without
# tokens.
mkdir -p sys/class/dmi/id
echo 'Amazon EC2' >sys/class/dmi/id/sys_vendor
double aws.token
CLTRAIN_SYSFS=$work/sys AWS_EC2_METADATA_SERVICE_ENDPOINT=$address/ begin run_token
await_from $process grep -q instance-action aws.token/requests
touch aws.token/expire aws.token/notice
ends run_token 75
expect_event run_token notice '"provider":"aws"'
if [ "$(grep -c api/token aws.token/requests)" -eq 2 ]; then pass; else fail 'the token was not fetched twice'; fi
obeys aws.token
double alibaba.old
touch alibaba.old/old alibaba.old/notice
expect_code 75 "$CLTRAIN" train net.json --out run_old cloud.provider=alibaba "cloud.endpoint=$address"
obeys alibaba.old
double aws.old
touch aws.old/old aws.old/notice
AWS_EC2_METADATA_V1_DISABLED=true begin run_v2 cloud.provider=aws "cloud.endpoint=$address"
await_from $process has_event run_v2 warning 'notices may be missed'
touch run_v2/STOP
ends run_v2 75
expect_event run_v2 stopped STOP
obeys aws.old

# Services that answer nonsense, do not answer, or do not exist: a run on a user's own machine continues,
# and reports it once.
for kind in aws gcp azure alibaba url; do
    double $kind.garble
    touch $kind.garble/garble
    if [ $kind = url ]; then rule=("cloud.notice_url=$address/?key=secret"); else rule=("cloud.provider=$kind" "cloud.endpoint=$address"); fi
    begin run_garble "${rule[@]}"
    await_from $process has_event run_garble warning 'notices may be missed until it answers'
    rm $kind.garble/garble
    touch $kind.garble/notice # it is heard when the service is well again
    ends run_garble 75
    expect_event run_garble notice '"kind":"stop"'
    if grep -q secret run_garble/metrics.jsonl run_garble/log.txt "$out"; then fail 'the key in the address is shown'; else pass; fi
    rm -rf run_garble
    obeys $kind.garble
done
# The first question to Azure may take 130 seconds: a run that ends meanwhile does not wait for it,
# otherwise this double would be asked again.
double azure.mute
touch azure.mute/mute
begin run_mute cloud.provider=azure "cloud.endpoint=$address"
await_from $process test -s azure.mute/requests
touch run_mute/STOP
ends run_mute 75
expect_event run_mute stopped STOP
if [ "$(wc -l <azure.mute/requests)" -eq 1 ]; then pass; else fail 'the run has waited until the question was given up'; fi
obeys azure.mute
GCE_METADATA_HOST=127.0.0.1:1 begin run_away
await_from $process has_event run_away warning 'notices of gcp: .*does not ask again'
touch run_away/STOP
ends run_away 75

# `doctor` asks once, and knows which settings keep answers from a container.
double aws.doctor
CLTRAIN_SYSFS=$work/sys AWS_EC2_METADATA_SERVICE_ENDPOINT=$address expect_code 0 "$CLTRAIN" doctor
expect_text 'this machine belongs to the cloud aws' 'it answers: trainings will get a notice'
obeys aws.doctor
CLTRAIN_SYSFS=$work/sys AWS_EC2_METADATA_SERVICE_ENDPOINT=127.0.0.1:1 expect_code 0 "$CLTRAIN" doctor
expect_text 'trainings will not get a notice .*127.0.0.1:1/latest/api/token' 'http_put_response_hop_limit = 2'
CLTRAIN_SYSFS=$work/bare expect_code 0 "$CLTRAIN" doctor
reject_text cloud

# A file and an address are watched in addition to a cloud, and each of them ends the run.
for kind in file url aws; do
    double "aws.with_$kind"
    cloud=$address
    double "url.with_$kind"
    begin run_both cloud.provider=aws "cloud.endpoint=$cloud" cloud.notice_file=gone "cloud.notice_url=$address/?key=secret"
    expect_code 0 grep -q 'watching for notices of file, url, aws' run_both/log.txt
    if [ $kind = file ]; then touch gone; else touch "$kind.with_$kind/notice"; fi
    ends run_both 75
    expect_event run_both notice "\"provider\":\"$kind\",\"kind\":\"stop\""
    for service in aws url; do
        if [ -s "$service.with_$kind/requests" ]; then pass; else fail "$service was not asked beside the others"; fi
        obeys "$service.with_$kind"
    done
    rm -rf run_both gone
done

# Google's server answers when something changes: the request that reports the end was sent before and has
# waited.
double gcp.wait
begin run_wait cloud.provider=gcp "cloud.endpoint=$address"
await_from $process grep -q wait_for_change gcp.wait/requests
touch gcp.wait/notice
ends run_wait 75
grep preempted gcp.wait/requests | tail -n 1 >"$out"
expect_text 'preempted\?wait_for_change=true&timeout_sec=([1-9]|10)&last_etag=[0-9a-f]{16}$'
went_on run_wait
obeys gcp.wait

# What is refused; no cloud: the files of the kernel are read, and nothing is sent.
expect_code 2 "$CLTRAIN" train net.json --out no cloud.provider=file
expect_text 'cloud.provider: file needs cloud.notice_file'
expect_code 2 "$CLTRAIN" train net.json --out no cloud.provider=url
expect_text 'cloud.provider: url needs cloud.notice_url'
expect_code 2 "$CLTRAIN" train net.json --out no cloud.endpoint=169.254.169.254
expect_text 'cloud.endpoint: must begin with http:// or https://'
expect_code 2 "$CLTRAIN" train net.json --out no cloud.provider=url cloud.notice_url=http://127.0.0.1:1 cloud.notice_file=gone
expect_text 'cloud.notice_file: is not looked at with cloud.provider=url'
CLTRAIN_CLOUD_PROVIDER=ibm expect_code 2 "$CLTRAIN" train net.json --out no
expect_text "CLTRAIN_CLOUD_PROVIDER: 'ibm' is not a provider of notices; expected aws"
CLTRAIN_CLOUD_PROVIDER=file expect_code 2 "$CLTRAIN" train net.json --out no
expect_text "the provider 'file' needs cloud.notice_file"
CLTRAIN_CLOUD_PROVIDER=ibm expect_code 0 "$CLTRAIN" train net.json --out run_off --max-steps 1 cloud.provider=off
expect_code 2 "$CLTRAIN" train net.json --out no cloud.provider=ibm
expect_text 'cloud.provider: .*aws'
expect_absent no
AWS_EC2_METADATA_DISABLED=true CLTRAIN_SYSFS=$work/sys expect_code 0 "$CLTRAIN" train net.json --out run_disabled --max-steps 3
if grep -q 'watching for notices' run_disabled/log.txt; then fail 'AWS_EC2_METADATA_DISABLED was ignored'; else pass; fi
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    mkdir -p bare
    CLTRAIN_SYSFS=$work/bare expect_code 0 strace -f -o calls -e trace=connect,sendto,sendmsg "$CLTRAIN" train net.json --out run_none --max-steps 3
    if grep -E 'AF_INET|AF_INET6' calls; then fail 'a machine of no cloud sent something'; else pass; fi
else
    note_skip 'strace is not installed or not allowed: what is sent is not watched'
fi
finish
