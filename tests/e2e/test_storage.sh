#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 15 ctest-optimise: no
#
# The client of object storage (engine/storage/) against a server that storage_double.py simulates and that is stricter than the real ones:
# every call, odd keys, lists of many pages, parts, faults that pass and faults that do not, a clock that is wrong, a bucket in another
# region, each source of keys alone and in order, keys that expire; no secret in any output. STORAGE_ROUNDS=N: rounds of random faults
# (3).
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"

tool=$CLTRAIN_BUILD_DIR/tests/object_storage
s3() { expect_code "$1" "$tool" bucket "${@:2}"; kept_outputs; }
expect_line() { if [ "$(tail -n 1 "$out")" = "$1" ]; then pass; else fail "the last line is not: $1"; fi; }
count() { grep -c -E -- "$2" "$1/requests" || true; } # FOLDER PATTERN
expect_count() { if [ "$(count "$1" "$2")" -eq "$3" ]; then pass; else fail "$(count "$1" "$2") requests instead of $3: $2"; fi; }

storage_double server
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET

# --- every call ---
printf 'hello' >hello
: >empty
head -c 20000000 /dev/urandom >large
s3 0 put a/hello hello
s3 0 put empty empty
s3 0 upload large large
expect_count server 'POST /bucket/large\?uploads=' 1
expect_count server 'PUT /bucket/large\?partNumber=' 3
s3 0 head a/hello
expect_line '5 "5d41402abc4b2a76b9719d911017c592"'
s3 0 head empty
s3 0 head absent
expect_line absent
s3 0 download large large.back
expect_same large large.back
expect_count server 'GET /bucket/large bytes=' 3
s3 0 download empty empty.back
expect_same empty empty.back
s3 0 range large 8388600 20 part
if [ "$(tail -c +8388601 large | head -c 20 | cksum)" = "$(cksum <part)" ]; then pass; else fail 'a range has other bytes'; fi
s3 8 range large 19999990 20 part2
s3 0 read a/hello
expect_text hello
s3 8 read absent
expect_text 's3://bucket/absent: GET: 404 NoSuchKey'
s3 0 delete a/hello
s3 0 delete a/hello
s3 0 head a/hello
expect_line absent

# Odd keys: each comes back as it was, in lists of pages of two.
echo 2 >server/page
odd=('odd/a b' 'odd/ü' 'odd/+' 'odd/&=%~!()' "odd/'*" 'odd/%20' 'odd//x/' 'odd/../y' 'odd/./z' 'odd/"<>' 'odd/日本')
for key in "${odd[@]}"; do
    s3 0 put "$key" hello
    s3 0 read "$key"
    expect_text hello
done
s3 0 list odd/
for key in "${odd[@]}"; do
    if grep -q -x -F -- "$key 5" "$out"; then pass; else fail "the list does not have the key $key"; fi
done
expect_count server 'GET /bucket\?(continuation-token=[^&]*&)?encoding-type=url&list-type=2' 6
rm server/page
s3 0 list none/
reject_text ' [0-9]+$'

# --- faults that pass ---
faults() { printf '%s\n' "$@" >server/faults; }
used_up() { if [ -s server/faults ]; then fail "faults are left: $(cat server/faults)"; else pass; fi; }
faults 'PUT /x SlowDown.503' 'PUT /x 500' 'PUT /x reset' 'PUT /x lost' 'PUT /x 429'
s3 0 put x hello
used_up
faults 'GET /x cut' 'GET /x reset' 'GET /x InternalError.500' 'GET /x RequestTimeout.400'
s3 0 read x
expect_text hello
used_up
# A wait that the server requests is observed.
faults 'GET /x patience' 'GET /x patience_ms'
s3 0 read x
expect_text 's3://bucket/x: GET: 503 : again after 1.00 s' 's3://bucket/x: GET: 503 : again after 0.30 s'
used_up
faults 'GET /large cut' 'GET /large 502' 'GET /large cut'
s3 0 download large large.back
expect_same large large.back
used_up
faults 'POST uploads 500' 'PUT partNumber=2 cut' 'PUT partNumber=1 lost' 'POST uploadId hidden' 'POST uploadId lost'
s3 0 upload parts large # the upload is complete, though its answer was lost
used_up
s3 0 download parts parts.back
expect_same large parts.back
# An upload that the server no longer knows does not count as complete just because an older object has the
# same size.
head -c 20000000 /dev/urandom >large.new
faults 'POST uploadId NoSuchUpload.404'
s3 8 upload parts large.new
expect_text 'NoSuchUpload'
used_up
faults 'POST uploadId lost'
s3 0 upload parts large.new # this time it is
used_up
s3 0 download parts parts.back
expect_same large.new parts.back
faults 'GET list-type cut' 'GET list-type hidden'
s3 0 list odd/
used_up
faults 'HEAD /x move'
s3 0 head x
expect_text '^5 '
# A clock that is wrong by 20 minutes, in either direction, is corrected with one repetition.
for clock in 1200 -1200; do
    echo $clock >server/clock
    : >server/requests
    s3 0 head x
    expect_text 'differ by [0-9]+ s'
    expect_count server 'HEAD /bucket/x' 2
done
rm server/clock
# The bucket is in another region.
echo eu-west-3 >server/region
: >server/requests
s3 0 read x
expect_count server 'GET /bucket/x' 2
AWS_REGION=eu-west-3 s3 0 head x
# Two calls learn at the same time the bucket's region and the server's time: both are repeated.
faults 'GET /x meet' 'GET /x meet'
: >server/requests
s3 0 both read x
used_up
expect_count server 'GET /bucket/x' 4
rm server/region
echo 1200 >server/clock
faults 'HEAD /x meet' 'HEAD /x meet'
: >server/requests
s3 0 both head x
used_up
expect_count server 'HEAD /bucket/x' 4
rm server/clock
# A server that is given by address may use any name for its region, except characters that a signature
# cannot hold.
echo RegionOne >server/region
s3 0 read x
echo 'Region/One' >server/region
s3 8 read x
expect_text 'AuthorizationHeaderMalformed'
rm server/region

# --- faults that do not pass ---
faults 'HEAD /x bare'
s3 8 head x
expect_text 'does not say how large the object is'
faults 'HEAD /x bare'
s3 8 download x unsized
expect_absent unsized
faults 'GET list-type minus' 'GET list-type stray'
s3 8 list odd/
expect_text 'whose size is not a number'
s3 8 list odd/
expect_text "begin with 'odd/' has a key that does not"
# A server without ranges is asked once, and the message names the missing ranges. A server whose object is
# no larger than the range has not broken the rule.
ranges='the server sends more than the [0-9]+ bytes that were requested: .* ignores ranged reads'
: >server/requests
faults 'GET /large whole*'
s3 8 range large 100 20 part
expect_text "s3://bucket/large: GET: $ranges"
expect_count server 'GET /bucket/large' 1
s3 8 download large whole.back
expect_text "$ranges"
expect_absent whole.back
faults 'GET /x whole'
s3 0 download x x.back
expect_same hello x.back
: >server/requests
s3 8 read large
expect_text 's3://bucket/large: GET: the answer is too large: it has more than 1000000 bytes'
expect_count server 'GET /bucket/large' 1
: >server/requests
faults 'PUT partNumber=2 AccessDenied.403'
s3 8 upload parts2 large
expect_text 's3://bucket/parts2: PUT: 403 AccessDenied' 'the keys do not allow this'
expect_count server 'DELETE /bucket/parts2\?uploadId' 1
s3 0 head parts2
expect_line absent
touch server/locked
s3 8 head x
expect_text 's3://bucket/x: HEAD: 403'
s3 8 head absent
s3 8 list odd/
s3 8 download x refused
expect_absent refused
rm server/locked
faults $(for _ in 1 2 3 4 5 6 7 8; do echo GET; echo /x; echo 500; done | paste - - - | tr '\t' '~') # eight times, which is all
tr '~' ' ' <server/faults >server/faults.new
mv server/faults.new server/faults
s3 8 read x
expect_text 's3://bucket/x: GET: 500 \(8 attempts\)'
used_up
AWS_SECRET_ACCESS_KEY=OTHER/SECRET s3 8 head x
AWS_SECRET_ACCESS_KEY=OTHER/SECRET s3 8 read x
expect_text 'SignatureDoesNotMatch' 'the secret key is wrong'
AWS_ACCESS_KEY_ID=NOBODY s3 8 read x
expect_text 'InvalidAccessKeyId'
expect_code 8 "$tool" otherbucket read x
expect_text 'NoSuchBucket'
STORAGE_SSE=AES256 s3 0 put sealed hello
STORAGE_SSE=AES256 s3 0 upload sealed.large large
touch server/no_sse
STORAGE_SSE=AES256 s3 8 put sealed hello
expect_text 'does not say that it has encrypted'
STORAGE_SSE=AES256 s3 8 upload sealed large
rm server/no_sse
STORAGE_KMS_KEY=k s3 2 put sealed hello
s3 0 abort ''
# Uploads that were never finished, listed in pages; uploads outside of the prefix stay.
for key in 'left/a&b' left/c left/c left/c left/ü beside; do
    faults 'PUT partNumber=2 AccessDenied.403' 'DELETE uploadId AccessDenied.403'
    s3 8 upload "$key" large
    expect_text 'stay until'
done
echo 2 >server/page
: >server/requests
s3 0 abort left/
expect_line 5
expect_count server 'GET /bucket\?.*uploads=' 3
for _ in 1 2 3; do
    faults 'PUT partNumber=2 AccessDenied.403' 'DELETE uploadId AccessDenied.403'
    s3 8 upload left/d large
done
faults 'GET key-marker circle'
s3 8 abort left/
expect_text 'the list of uploads repeats itself'
rm server/page
s3 0 abort ''
expect_line 2 # the last one of the circle, and the one beside

# A connection that the server has closed does not end the process by SIGPIPE.
s3 0 pipe PUT "$address/latest/api/token"
expect_line 200

# --- servers ---
AWS_ENDPOINT_URL_S3=http://192.0.2.1 s3 2 head x
expect_text 'uses http://, so anyone on the network can read the data'
AWS_ENDPOINT_URL_S3=https://me:secretword@192.0.2.1 s3 2 head x
AWS_ENDPOINT_URL=http://127.0.0.1:1 s3 0 head x # AWS_ENDPOINT_URL_S3 comes first
http_proxy=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9 s3 0 head x # loopback goes past proxies

# --- where keys come from ---
# doctor PATTERN...: `cltrain doctor` names the source, and asks for no keys.
doctor() {
    : >server/requests
    expect_code 0 "$CLTRAIN" doctor
    kept_outputs
    expect_text "$@"
    reject_text TESTKEY
    expect_count server 'agent|sts|POST|security-credentials/[a-z]' 0
}
s3 0 source
expect_line env
AWS_SECRET_ACCESS_KEY= s3 8 source
expect_text 'AWS_SECRET_ACCESS_KEY is empty'
AWS_SECRET_ACCESS_KEY=$'TEST\nSECRET' s3 8 source
expect_text 'has a character that no key has'
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
s3 8 source
expect_text 'no keys for object storage were found'
doctor '^healthy'
reject_text 'object storage'
expect_count server . 0
# Each source alone, from the last to the first; each newly added source has precedence over the earlier
# ones.
export AWS_EC2_METADATA_SERVICE_ENDPOINT=$address
s3 0 source
expect_line instance
CLTRAIN_CLOUD_PROVIDER=off doctor "object storage: keys would come from the role 'some-role' of the instance"
faults 'PUT api/token 503' 'GET security-credentials/$ 500' 'GET some-role reset' 'GET some-role 503'
s3 0 source
expect_line instance
used_up
# A permanent refusal is reported immediately.
for code in 400 403 404; do
    : >server/requests
    faults "PUT api/token $code*"
    AWS_EC2_METADATA_V1_DISABLED=true s3 8 source
    expect_text "api/token: answer $code, which cannot be understood"
    expect_count server 'PUT /latest/api/token' 1
done
: >server/requests
faults 'GET some-role 403*'
s3 8 source
expect_text 'answer 403, which cannot be understood'
expect_count server 'GET .*some-role' 1
rm server/faults
export AWS_CONTAINER_CREDENTIALS_FULL_URI=$address/agent AWS_CONTAINER_AUTHORIZATION_TOKEN=agent-token
s3 0 source
expect_line container
faults 'GET agent 500' 'GET agent 429' 'GET agent reset' 'GET agent 503'
s3 0 source
expect_line container
used_up
CLTRAIN_CLOUD_PROVIDER=off doctor 'keys would come from the agent of the container'
AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/agent s3 8 source
expect_text 'only from https://, loopback'
AWS_CONTAINER_AUTHORIZATION_TOKEN=$'a\r\nb: c' s3 8 source
printf 'agent-token\n' >agent_token
AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=agent_token s3 0 source
expect_line container
mkdir -p "$HOME/.aws"
printf '[profile other]\naws_access_key_id = NOBODY\n[default]\nregion = us-east-1\naws_access_key_id = TESTKEY\naws_secret_access_key=TEST/SECRET\n' >"$HOME/.aws/config"
s3 0 source
expect_line config
doctor_profile() { AWS_EC2_METADATA_SERVICE_ENDPOINT= AWS_CONTAINER_CREDENTIALS_FULL_URI= doctor "$@"; }
doctor_profile "keys would come from the profile 'default' in the file of settings .*; region us-east-1, server http://127.0.0.1:"
expect_count server . 0
printf '[profile bare]\nregion = eu-west-3\n' >>"$HOME/.aws/config"
AWS_PROFILE=bare AWS_ENDPOINT_URL_S3= doctor_profile "profile 'bare' has no keys, .* region eu-west-3, server https://s3.eu-west-3.amazonaws.com"
AWS_PROFILE=absent doctor_profile 'object storage cannot be used: AWS_PROFILE=absent'
printf '# keys\n[default]\naws_access_key_id=TESTKEY\naws_secret_access_key = TEST/SECRET \n[broken]\naws_access_key_id = TESTKEY\n' >"$HOME/.aws/credentials"
s3 0 source
expect_line shared
AWS_PROFILE=broken s3 8 source
expect_text 'aws_secret_access_key of the profile is empty'
AWS_PROFILE=absent s3 2 source
expect_text 'AWS_PROFILE=absent'
# Roles of profiles: source_profile, over several profiles, or credential_source.
export AWS_ENDPOINT_URL_STS=$address
role() { printf '[profile %s]\nrole_arn = arn:aws:iam::1:role/test\n' "$1" && printf '%s\n' "${@:2}"; }
{
    role role 'source_profile = default' 'role_session_name = me@here' 'external_id = outer id' 'duration_seconds = 900'
    role second 'source_profile = role'
    role here 'credential_source = Environment'
    role agent 'credential_source = EcsContainer'
    role circle 'source_profile = around'
    role around 'source_profile = circle'
    role self 'source_profile = self' 'aws_access_key_id = TESTKEY' 'aws_secret_access_key = TEST/SECRET'
    role both 'source_profile = default' 'credential_source = Environment'
    role neither
    role lost 'source_profile = absent'
    role bare_source 'source_profile = bare'
    role code 'source_profile = default' 'mfa_serial = arn:aws:iam::1:mfa/me'
    role odd 'credential_source = Elsewhere'
    printf '[profile denied]\nrole_arn = arn:aws:iam::1:role/other\nsource_profile = default\n'
    printf '[profile sso]\nsso_account_id = 1\nsso_role_name = x\n'
    printf '[profile program]\ncredential_process = "%s/give keys" "a \\"b\\"" '"'c d'"' \\e\n' "$work"
    printf '[profile web]\nrole_arn = arn:aws:iam::1:role/test\nweb_identity_token_file = %s/web_token\n' "$work"
    role over_program 'source_profile = program'
} >>"$HOME/.aws/config"
expect_assumed() { if [ "$(tail -n 1 server/assumed)" = "$1" ]; then pass; else fail "assumed: $(tail -n 1 server/assumed)"; fi; }
for profile in role second agent self; do
    AWS_PROFILE=$profile s3 0 source
    expect_line role
done
AWS_PROFILE=role s3 0 source
expect_assumed 'DurationSeconds=900 ExternalId=outer id RoleArn=arn:aws:iam::1:role/test RoleSessionName=me@here'
: >server/requests
AWS_PROFILE=second s3 0 source
expect_count server 'POST / ' 2
expect_assumed 'RoleArn=arn:aws:iam::1:role/test RoleSessionName=cltrain'
AWS_PROFILE=role doctor "keys would come from STS, for the role_arn of the profile 'role'"
expect_count server . 0
refuses() { # PROFILE PATTERN
    AWS_PROFILE=$1 s3 8 source
    expect_text "$2"
}
AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET AWS_PROFILE=role s3 0 source
expect_line env # comes first
refuses here 'credential_source Environment has no keys here'
refuses circle 'source_profile leads in a circle'
refuses both 'needs one of source_profile and credential_source'
refuses neither 'needs one of source_profile and credential_source'
refuses lost "names the source_profile 'absent', which does not exist"
refuses bare_source "the profile 'bare', which is a source_profile, has no keys"
refuses code 'a training cannot ask for a code'
refuses odd 'credential_source is Environment, EcsContainer or Ec2InstanceMetadata'
refuses denied "STS does not give the role of the profile 'denied': 403 AccessDenied"
refuses sso 'uses single sign-on, which cltrain cannot use'
# A wrong clock is corrected for STS as well.
echo 1200 >server/clock
: >server/requests
AWS_PROFILE=role s3 0 source
expect_count server 'POST / ' 2
rm server/clock
faults 'POST ^/$ 503' 'POST ^/$ reset' 'POST ^/$ Throttling.400' 'POST ^/$ 429' 'POST ^/$ IDPCommunicationError.400'
AWS_PROFILE=role s3 0 source
used_up
faults 'POST ^/$ 500*' # not for ever
: >server/requests
refuses role "STS does not give the role of the profile 'role': 500"
tries=$(grep -c 'POST / ' server/requests)
if [ "$tries" -ge 2 ] && [ "$tries" -le 8 ]; then pass; else fail "$tries requests in the half minute instead of 2 to 8"; fi
rm server/faults
# A program that prints keys: its words are split as by a shell, but no shell runs; its error stream is not
# read for keys.
cat >'give keys' <<'END'
#!/bin/sh
printf '%s|' "$@" >arguments
echo run >>runs
echo 'a word on the error stream' >&2
[ ! -e broken ] || { echo 'the sign-on has expired' >&2; exit 3; }
cat keys.json
END
chmod +x 'give keys'
echo '{"Version": 1, "AccessKeyId": "TESTKEY", "SecretAccessKey": "TEST/SECRET"}' >keys.json
AWS_PROFILE=program s3 0 source
expect_line process
if [ "$(cat arguments)" = 'a "b"|c d|e|' ]; then pass; else fail "the program got: $(cat arguments)"; fi
AWS_PROFILE=over_program s3 0 source
expect_line role
AWS_PROFILE=program doctor "keys would come from the program of credential_process of the profile 'program'"
if [ "$(grep -c . runs)" -eq 2 ]; then pass; else fail 'doctor has started the program'; fi
touch broken
refuses program "credential_process of the profile 'program': the program ended with exit code 3: the sign-on has expired"
rm broken
echo '{"Version": 2, "AccessKeyId": "TESTKEY", "SecretAccessKey": "TEST/SECRET"}' >keys.json
refuses program 'has not the Version 1'
echo '{"Version": 1, "AccessKeyId": "TESTKEY", "SecretAccessKey": "TEST/SECRET", "SessionToken": "a token"}' >keys.json
refuses program 'SessionToken has a character that no key has'
echo 'TEST/SECRET' >keys.json
refuses program 'the answer is not a JSON object'
printf '[profile open]\ncredential_process = "x\n[profile none]\ncredential_process = no-such-program-here x\n' >>"$HOME/.aws/config"
refuses open 'a quote has no end'
refuses none "no program 'no-such-program-here' can be run"
printf 'web-token-of-a-pod' | tee server/web_token >web_token
export AWS_WEB_IDENTITY_TOKEN_FILE=$work/web_token AWS_ROLE_ARN=arn:aws:iam::1:role/test
s3 0 source
expect_line web
env -u AWS_WEB_IDENTITY_TOKEN_FILE -u AWS_ROLE_ARN AWS_PROFILE=web "$tool" bucket source >web_source 2>>outputs
if [ "$(cat web_source)" = web ]; then pass; else fail 'the token of a profile is not exchanged'; fi
printf 'an-old-token' >web_token
s3 8 source
expect_text 'STS does not exchange the token'
AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET s3 0 source
expect_line env
unset AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN AWS_ENDPOINT_URL_STS
rm -r "$HOME/.aws"
# Keys that are refused as expired are fetched again, once for a call.
faults 'HEAD source ExpiredToken.400'
: >server/requests
s3 0 source
expect_line container
expect_count server 'GET /agent' 2
# Keys that will expire are fetched again while the same client continues, before a server has refused them.
echo 2 >server/life
: >server/requests
s3 0 repeat x 50
expect_line container
if [ "$(count server 'GET /agent')" -ge 2 ]; then pass; else fail 'keys were not fetched again'; fi
rm server/life
unset AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_AUTHORIZATION_TOKEN AWS_EC2_METADATA_SERVICE_ENDPOINT
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET

# --- faults at random ---
echo 0.15 >server/chaos
for round in $(seq "${STORAGE_ROUNDS:-3}"); do
    s3 0 upload "chaos/$round" large
    s3 0 download "chaos/$round" chaos.back
    expect_same large chaos.back
    s3 0 list chaos/
    expect_text "chaos/$round 20000000"
done
rm server/chaos

obeys server
no_secrets TEST/SECRET OTHER/SECRET secretword agent-token web-token-of-a-pod
finish
