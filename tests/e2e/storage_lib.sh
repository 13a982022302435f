# SPDX-License-Identifier: Apache-2.0
#
# What the scripts that need object storage share: the double, an environment without the user's own keys, and the search for secrets.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v python3 >/dev/null || skip_all 'python3, which simulates the services, is not installed'
"$CLTRAIN" version >"$out" 2>&1

# storage_double FOLDER [SERVER]: starts a server, or one that only injects faults in front of SERVER;
# $address and AWS_ENDPOINT_URL_S3 are its address. It ends with the test.
storage_double() {
    mkdir "$1"
    python3 "$CLTRAIN_SOURCE_DIR/tests/e2e/storage_double.py" "$@" &
    await_from $! test -s "$1/port"
    address=http://127.0.0.1:$(cat "$1/port")
    export AWS_ENDPOINT_URL_S3=$address
    trap 'touch "$work/$(basename '"$1"')/quit"; wait; rm -rf "$work"' EXIT
}
# seaweedfs WEED: starts SeaweedFS by its program `weed`, with the bucket `bucket`; AWS_ENDPOINT_URL_S3 is
# its address, and $seaweedfs_process must be killed at the end. The keys are the double's.
seaweedfs() {
    local ports
    # Its services speak gRPC at their ports + 10000.
    read -r -a ports <<<"$(python3 -c 'import socket
found, kept = [], []
while len(found) < 4:
    pair = [socket.socket(), socket.socket()]
    pair[0].bind(("127.0.0.1", 0))
    port = pair[0].getsockname()[1]
    try:
        pair[1].bind(("127.0.0.1", port + 10000))
        found.append(port)
    except (OSError, OverflowError):
        pass
    kept += pair
print(*found)')"
    mkdir disk
    echo '{"identities":[{"name":"me","credentials":[{"accessKey":"TESTKEY","secretKey":"TEST/SECRET"}],"actions":["Admin","Read","List","Write"]}]}' >ids.json
    WEED_S3_SSE_KEY=$(printf '%064d' 7) "$1" server -dir=disk -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="${ports[0]}" -volume.port="${ports[1]}" \
        -filer -filer.port="${ports[2]}" -s3 -s3.port="${ports[3]}" -s3.config=ids.json -s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false -volume.max=200 \
        -master.volumeSizeLimitMB=128 >weed.log 2>&1 &
    seaweedfs_process=$!
    export AWS_ENDPOINT_URL_S3=http://127.0.0.1:${ports[3]}
    echo x >ready
    is_seaweedfs_ready() {
        kill -0 "$seaweedfs_process" || return 1
        echo 's3.bucket.create -name bucket' | "$1" shell -master="127.0.0.1:${ports[0]}" -filer="127.0.0.1:${ports[2]}"
        "$CLTRAIN_BUILD_DIR/tests/object_storage" bucket put ready ready # an open port is not enough
    }
    await_from "$seaweedfs_process" is_seaweedfs_ready "$1"
}
obeys() { # FOLDER: ends a server, whose rules no request has broken
    touch "$1/quit"
    expect_absent "$1/violations"
    [ ! -e "$1/violations" ] || head -n 3 "$1/violations"
}
# clean_keys: hides keys, settings and services of the machine, so that only the test's are found.
clean_keys() {
    unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_CA_BUNDLE AWS_ENDPOINT_URL
    unset AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
    unset AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_EC2_METADATA_SERVICE_ENDPOINT AWS_EC2_METADATA_DISABLED AWS_IGNORE_CONFIGURED_ENDPOINT_URLS
    mkdir -p "$work/sys" # the firmware names no cloud
    export CLTRAIN_SYSFS=$work/sys
    clean_home
}
# kept_outputs: keeps the last output for no_secrets.
kept_outputs() { cat "$out" >>"$work/outputs"; }
# no_secrets WORD...: checks that no kept output contains the words, a token or a signature.
no_secrets() {
    local word
    for word in "$@" 'Signature=' 'x-amz-security-token: ' 'AWS4-HMAC'; do
        if grep -q -i -F -- "$word" "$work/outputs"; then fail "an output holds: $word"; else pass; fi
    done
}
