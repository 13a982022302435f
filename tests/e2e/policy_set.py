#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# policy_set.py SERVER POLICY [ACTION]: gives the user of a moto server the rights of the policy file, without ACTION, for the bucket
# `models` and the prefix `cltrain/first`; then rights are checked. The first call makes user and bucket, and prints an access key and a
# secret key.
import json
import re
import sys
import urllib.parse
import urllib.request

server, path = sys.argv[1:3]
left_out = sys.argv[3] if len(sys.argv) > 3 else ""


def ask(where, body, service=None, method="POST"):
    request = urllib.request.Request(server + where, body.encode(), method=method)
    if where.startswith("/moto-api"):
        request.add_header("Content-Type", "text/plain")
    if service:  # by which moto knows the service that is meant; nothing is checked at this time
        request.add_header("Authorization", f"AWS4-HMAC-SHA256 Credential=root/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0")
    with urllib.request.urlopen(request) as reply:
        return reply.read().decode()


def iam(action, **fields):
    return ask("/", urllib.parse.urlencode({"Action": action, "Version": "2010-05-08", **fields}), "iam")


ask("/moto-api/reset-auth", "1000")
with open(path, encoding="utf-8") as file:
    policy = json.loads(file.read().replace("BUCKET", "models").replace("PREFIX", "cltrain/first"))
for statement in policy["Statement"]:
    actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
    statement["Action"] = [a for a in actions if a != left_out]
policy["Statement"] = [s for s in policy["Statement"] if s["Action"]]
try:
    iam("CreateUser", UserName="runner")
    ask("/models", "", "s3", "PUT")
    answer = iam("CreateAccessKey", UserName="runner")
    print(*(re.search(f"<{name}>(.*?)</{name}>", answer).group(1) for name in ("AccessKeyId", "SecretAccessKey")))
except urllib.error.HTTPError as error:
    if error.code != 409:
        raise
iam("PutUserPolicy", UserName="runner", PolicyName="run", PolicyDocument=json.dumps(policy))
ask("/moto-api/reset-auth", "0")
