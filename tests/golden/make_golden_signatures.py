#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests to S3 at random, each with the header Authorization that botocore gives it, for test_golden_signatures.c.

usage: make_golden_signatures.py     writes tests/golden/signatures.jsonl

A line is a list: method, key, parameters, headers, payload hash, region, access key, secret key, time, host, signed names, signature.
Needs botocore (the golden file: 1.44.8).
"""
import json
import os
import random
import string
from datetime import datetime, timedelta

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials
from botocore.utils import percent_encode

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "signatures.jsonl")
COUNT = 500
ODD = [" ", "+", "&", "=", "%", "~", "!", "(", ")", "'", "*", ",", ":", ";", "@", "$", "?", "#", "[", "]", "{", "}", "|", "\\", "^", "`", "\"", "<",
       ">", "\u00fc", "\u00df", "\u65e5\u672c", "\U0001f600", "%20", "%2F", "..", "//", "/../", "/./", "a.b", "-", "_"]
REGIONS = ["us-east-1", "eu-central-1", "ap-southeast-2", "auto", "cn-north-1", "us-gov-west-1"]
random.seed(20261122)


def text(most, pieces):
    return "".join(random.choice(pieces) for _ in range(random.randint(0, most)))


def word(length, letters=string.ascii_letters + string.digits):
    return "".join(random.choice(letters) for _ in range(length))


def key():
    pieces = ODD + ["/"] * 8 + [word(3) for _ in range(20)]
    return text(12, pieces)


def parameters():
    names = random.sample(["list-type", "prefix", "uploads", "uploadId", "partNumber", "continuation-token", "encoding-type", "delimiter", "a", "A", "ab",
                           "X-y", "odd name", "\u00fc", "a-b", "a.b", "a_b", "a~b"], random.choice([0, 0, 1, 2, 3, 6]))
    return [[name, random.choice(["", word(4), text(5, ODD + ["/", "x"]), str(random.randint(1, 10000))])] for name in names]


def headers():
    names = random.sample(["x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id", "x-amz-meta-a", "x-amz-meta-b",
                           "X-Amz-Meta-Mixed", "x-amz-checksum-crc32c", "x-amz-acl"], random.choice([0, 0, 1, 2, 4]))
    return [[name, random.choice([word(8), "a  b   c", "  around ", "aws:kms", "x=y;z", "arn:aws:kms:eu-central-1:1:key/2"])] for name in names]


def line():
    method = random.choice(["GET", "PUT", "POST", "DELETE", "HEAD"])
    access, secret = word(20, string.ascii_uppercase + string.digits), word(40, string.ascii_letters + string.digits + "+/")
    token = random.choice([None, word(120, string.ascii_letters + string.digits + "+/=")])
    region = random.choice(REGIONS)
    host = random.choice(["127.0.0.1:8333", "bucket.s3.eu-central-1.amazonaws.com", "s3.example.org", "[::1]:9000"])
    body = random.choice([b"", b"x", random.randbytes(50)])
    unsigned = host.startswith("bucket") and body != b""
    now = datetime(2026, 1, 1) + timedelta(0, random.randrange(10 * 365 * 86400))
    auth.get_current_datetime = lambda *a, **k: now
    name, query, extra = key(), parameters(), headers()
    scheme = "https" if unsigned else "http"
    request = AWSRequest(method=method, url=f"{scheme}://{host}/{percent_encode(name, safe='/~')}", params=dict(query), data=body)
    request.headers = HTTPHeaders()
    request.headers["Host"] = host
    for header, value in extra:
        request.headers[header] = value
    request.context["payload_signing_enabled"] = not unsigned
    auth.S3SigV4Auth(Credentials(access, secret, token), "s3", region).add_auth(request)
    if token:
        extra.append(["x-amz-security-token", token])
    payload = request.headers["X-Amz-Content-SHA256"]
    time = request.context["timestamp"]
    begin, names, signature = request.headers["Authorization"].split(", ")
    assert begin == f"AWS4-HMAC-SHA256 Credential={access}/{time[:8]}/{region}/s3/aws4_request", begin
    seconds = int((now - datetime(1970, 1, 1)).total_seconds())
    return [method, name, query, extra, payload, region, access, secret, seconds, host, names.split("=", 1)[1], signature.split("=", 1)[1]]


with open(OUT, "w", encoding="utf-8") as file:
    for _ in range(COUNT):
        file.write(json.dumps(line(), ensure_ascii=False, separators=(",", ":")) + "\n")
