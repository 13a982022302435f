#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# storage_double.py FOLDER [SERVER]: simulates object storage (S3), and the services that give keys for it (STS, the agent of a container, the
# metadata service of AWS), on a free port of 127.0.0.1, which FOLDER/port gets. It is stricter than the real ones: it computes each
# signature itself, compares the sum of each body with the signed one, and wants parts of equal sizes; each broken rule is a line of
# FOLDER/violations, and an answer 400 or 403. Objects are in memory. Files in FOLDER, which may come and go:
#   region      the region of every bucket (us-east-1)
#   clock       seconds by which its clock is ahead
#   page        the most keys that an answer lists (1000)
#   life        seconds that keys of its services live, as they are told (3600); they are accepted for longer, so that it does not matter
#               how long a request takes
#   locked      every request for an object or a list is answered by 403 AccessDenied
#   faults      lines "METHOD PATTERN FAULT": the first one that fits a request is used up by it; PATTERN is a regular expression for
#               path and query, or for these and the range. FAULT: a code such as 503; Code.500, the error Code with this number; reset: no answer; cut: half of
#               it; lost: it is done, but not answered; hidden: an answer 200 that holds an error; move: an answer 307 to /moved;
#               damage: the first byte of the answer's body is changed; whole: a range is answered by the whole object (200); bare: the answer to HEAD does not give the size; minus: the
#               sizes in a list are -1; stray: a list has a key beside its prefix; circle: a list of uploads goes on where it began; meet: the request waits for another one with this
#               fault, and is then answered as usual; hold: it is never answered; patience or patience_ms: 503 that asks for a wait of 1 s or 300 ms; with * at its end it is not used up
#   delay       seconds that each request waits before it is answered (0)
#   untagged    no answer gives the ETag of an object
#   take        the files below FOLDER/new become objects of the bucket, and the file goes
#   chaos       a number: that share of all requests fails by 500, reset, cut or lost
# With SERVER, such as http://127.0.0.1:8333, it simulates the faults alone, and passes on all other requests.
# FOLDER/requests lists the requests, FOLDER/assumed the forms by which STS was asked for a role. Ends when FOLDER/quit exists. Keys: TESTKEY and TEST/SECRET, no token; others come from the services.
import base64
import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import os
import random
import re
import secrets
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils

folder = sys.argv[1]
target = sys.argv[2].split("//")[1] if len(sys.argv) > 2 else ""
lock = threading.RLock()
objects, uploads, sealed, keys, tokens = {}, {}, {}, {"TESTKEY": ("TEST/SECRET", None, None)}, {}
chance = random.Random(4)
meeting = threading.Barrier(2)


def read(name, otherwise):
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return otherwise


def note(name, text):
    with lock, open(os.path.join(folder, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def now():
    return time.time() + float(read("clock", "0"))


def quote(text, safe="-_.~"):
    return urllib.parse.quote(text, safe=safe)


def new_keys(source):
    access, secret, token = source + secrets.token_hex(8), secrets.token_urlsafe(24), secrets.token_urlsafe(60)
    end = time.time() + float(read("life", "3600"))
    with lock:
        keys[access] = (secret, token, end + 3600)
    date = datetime.datetime.fromtimestamp(end, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return access, secret, token, date


class Refusal(Exception):
    def __init__(self, code, error, more=""):
        super().__init__(error)
        self.code, self.error, self.more = code, error, more


class Service(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(now() if timestamp is None else timestamp)

    def answer(self, code, body=b"", **headers):
        if isinstance(body, str):
            body = body.encode()
        fault = getattr(self, "fault", None)
        if fault == "lost":
            self.close_connection = True
            return
        if fault == "damage" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers and fault != "bare":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        if fault == "cut":
            self.close_connection = True

    def refuse(self, code, error, more="", **headers):
        # Like the real services, the answer repeats the text that was signed, including the token: no
        # program may print it.
        text = f"<StringToSign>{xml.sax.saxutils.escape(str(self.headers))}</StringToSign>"
        body = f'<?xml version="1.0"?>\n<Error><Code>{error}</Code><Message>{error} was said</Message>{more}{text}</Error>'
        self.answer(code, body, **headers)

    def broken(self, code, error, rule):
        note("violations", f"{self.command} {self.path}: {rule}")
        raise Refusal(code, error)

    # --- faults ---

    def take_fault(self):
        with lock:
            lines = read("faults", "").splitlines()
            for i, line in enumerate(lines):
                method, pattern, fault = line.split()
                asked = (self.path, f"{self.path} {self.headers.get('Range', '')}")
                if method == self.command and any(re.search(pattern, text) for text in asked):
                    if fault.endswith("*"):
                        return fault[:-1]
                    rest = "\n".join(lines[:i] + lines[i + 1:])
                    with open(os.path.join(folder, "faults.new"), "w", encoding="utf-8") as file:
                        file.write(rest)
                    os.rename(os.path.join(folder, "faults.new"), os.path.join(folder, "faults"))
                    return fault
            if chance.random() < float(read("chaos", "0")):
                return chance.choice(["500", "reset", "cut", "lost"])
        return None

    def failed(self):
        """Whether a fault has answered the request."""
        fault = self.fault
        if fault is None or fault in ("lost", "cut", "damage", "bare", "minus", "stray", "circle", "whole"):
            return False
        if fault == "meet":
            meeting.wait()
            return False
        if fault == "hold":
            threading.Event().wait()
        if fault == "reset":
            self.close_connection = True
        elif fault == "patience":
            self.answer(503, Retry_After="1")
        elif fault == "patience_ms":
            self.answer(503, x_amz_retry_after="300", Retry_After="50")
        elif fault == "hidden":
            self.fault = None
            self.refuse(200, "InternalError")
        elif fault == "move":
            self.refuse(307, "TemporaryRedirect", Location=f"http://localhost:{server.server_address[1]}{self.path}")
        elif "." in fault:
            self.refuse(int(fault.split(".")[1]), fault.split(".")[0])
        else:
            self.answer(int(fault))
        return True

    # --- signatures ---

    def check_signature(self, body, service="s3"):
        given = self.headers.get("Authorization", "")
        parts = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})",
                             given)
        if not parts:
            self.broken(403, "AccessDenied", "there is no signature")
        access, day, region, signed_service, names, signature = parts.groups()
        if signed_service != service:
            self.broken(403, "AccessDenied", f"the signature is for the service {signed_service}")
        sent = self.headers.get("x-amz-date", "")
        if abs(datetime.datetime.strptime(sent, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc).timestamp() - now()) > 900:
            raise Refusal(403, "RequestTimeTooSkewed")
        if region != read("region", "us-east-1"):
            raise Refusal(400, "AuthorizationHeaderMalformed", f"<Region>{read('region', 'us-east-1')}</Region>")
        if access not in keys:
            raise Refusal(403, "InvalidAccessKeyId")
        secret, token, end = keys[access]
        if self.headers.get("x-amz-security-token") != token:
            raise Refusal(403, "InvalidToken")
        if end is not None and time.time() > end:
            raise Refusal(400, "ExpiredToken")
        if "host" not in names.split(";"):
            self.broken(403, "AccessDenied", "host is not signed")
        for name in self.headers:
            if name.lower().startswith("x-amz-") and name.lower() not in names.split(";"):
                self.broken(403, "AccessDenied", f"{name} is not signed")
        payload = self.headers.get("x-amz-content-sha256") if service == "s3" else hashlib.sha256(body).hexdigest()
        if payload != hashlib.sha256(body).hexdigest():
            self.broken(400, "XAmzContentSHA256Mismatch", "the body has another sum than the signed one")
        path, _, query = self.path.partition("?")
        if quote(urllib.parse.unquote(path), safe="-_.~/") != path:
            self.broken(400, "InvalidURI", "the path is not encoded as it is signed")
        pairs = sorted((quote(n), quote(v)) for n, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join([self.command, path, "&".join(f"{n}={v}" for n, v in pairs)] +
                              [f"{n}:{' '.join(self.headers[n].split())}" for n in names.split(";")] + ["", names, payload])
        key = ("AWS4" + secret).encode()
        for word in (day, region, service, "aws4_request"):
            key = hmac.new(key, word.encode(), "sha256").digest()
        text = "\n".join(["AWS4-HMAC-SHA256", sent, f"{day}/{region}/{service}/aws4_request", hashlib.sha256(canonical.encode()).hexdigest()])
        if hmac.new(key, text.encode(), "sha256").hexdigest() != signature:
            raise Refusal(403, "SignatureDoesNotMatch")

    # --- requests ---

    def handle_one(self):
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        if len(body) < length: # the client was killed
            self.close_connection = True
            return
        note("requests", f"{self.command} {self.path} {self.headers.get('Range', '')}")
        time.sleep(float(read("delay", "0")))
        self.fault = self.take_fault()
        if self.failed():
            return
        if target:
            self.pass_on(body)
            return
        try:
            if self.headers.get("User-Agent", "").split("/")[0] != "cltrain":
                self.broken(400, "InvalidRequest", "the program does not give its name")
            if "Expect" in self.headers or "Proxy-Connection" in self.headers:
                self.broken(400, "InvalidRequest", "Expect or a proxy")
            if self.path == "/" and self.command == "POST":
                self.sts(body)
            elif self.path == "/agent":
                self.agent()
            elif self.path.startswith("/latest/"):
                self.metadata()
            else:
                self.check_signature(body)
                self.storage(body)
        except Refusal as refusal:
            self.refuse(refusal.code, refusal.error, refusal.more, x_amz_bucket_region=read("region", "us-east-1"))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

    def pass_on(self, body):
        link = http.client.HTTPConnection(target, timeout=600)
        link.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            link.putheader(name, value)
        link.endheaders(body)
        reply = link.getresponse()
        data = reply.read()
        keep = {n.replace("-", "_"): v for n, v in reply.getheaders() if n.lower() not in
                ("date", "server", "connection", "transfer-encoding", "content-length")}
        if self.command == "HEAD" and self.fault != "bare" and reply.getheader("Content-Length"):
            keep["Content_Length"] = reply.getheader("Content-Length")
        self.answer(reply.status, data, **keep)
        link.close()

    # --- services that give keys ---

    def sts(self, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        action = form.get("Action")
        if action not in ("AssumeRoleWithWebIdentity", "AssumeRole") or form.get("Version") != "2011-06-15" or not form.get("RoleSessionName"):
            self.broken(400, "InvalidAction", "a form that STS does not know")
        if action == "AssumeRole":
            if "content-type" not in self.headers.get("Authorization", ""):
                self.broken(403, "AccessDenied", "the type of the form is not signed")
            self.check_signature(body, "sts")
            note("assumed", " ".join(f"{n}={form[n]}" for n in sorted(form) if n not in ("Action", "Version")))
        if form.get("RoleArn") != "arn:aws:iam::1:role/test" or (action != "AssumeRole" and form.get("WebIdentityToken") != read("web_token", "")):
            raise Refusal(403, "AccessDenied")
        access, secret, token, end = new_keys("STS")
        self.answer(200, f"<{action}Response><{action}Result><Credentials><AccessKeyId>{access}</AccessKeyId>"
                    f"<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken><Expiration>{end}</Expiration>"
                    f"</Credentials></{action}Result></{action}Response>")

    def agent(self):
        if self.headers.get("Authorization") != "agent-token":
            raise Refusal(403, "AccessDenied")
        access, secret, token, end = new_keys("AGENT")
        self.answer(200, json.dumps({"AccessKeyId": access, "SecretAccessKey": secret, "Token": token, "Expiration": end}))

    def metadata(self):
        base = "/latest/meta-data/iam/security-credentials/"
        if self.command == "PUT":
            token = secrets.token_urlsafe(20)
            tokens[token] = True
            self.answer(200, token)
        elif self.headers.get("X-aws-ec2-metadata-token") not in tokens:
            self.broken(401, "Unauthorized", "a token is needed")
        elif self.path == base:
            self.answer(200, "some-role")
        elif self.path == base + "some-role":
            access, secret, token, end = new_keys("IMDS")
            self.answer(200, json.dumps({"Code": "Success", "AccessKeyId": access, "SecretAccessKey": secret, "Token": token, "Expiration": end}))
        else:
            self.answer(404)

    # --- storage ---

    def storage(self, body):
        path, _, query = self.path.partition("?")
        bucket, _, key = urllib.parse.unquote(path)[1:].partition("/")
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if os.path.exists(os.path.join(folder, "locked")):
            raise Refusal(403, "AccessDenied")
        if bucket != "bucket":
            raise Refusal(404, "NoSuchBucket")
        with lock:
            if not key:
                self.list_uploads(query) if "uploads" in query else self.list_objects(query)
            elif "uploads" in query:
                self.begin(key)
            elif "uploadId" in query:
                self.multipart(key, query, body)
            else:
                getattr(self, self.command.lower() + "_object")(key, body)

    def etag(self, key):
        return {} if os.path.exists(os.path.join(folder, "untagged")) else {"ETag": objects[key][1]}

    def sse(self):
        value = self.headers.get("x-amz-server-side-encryption")
        return {"x_amz_server_side_encryption": value} if value and not os.path.exists(os.path.join(folder, "no_sse")) else {}

    def put_object(self, key, body):
        sealed[key] = self.sse()
        objects[key] = (body, f'"{hashlib.md5(body).hexdigest()}"')
        self.answer(200, ETag=objects[key][1], **self.sse())

    def delete_object(self, key, _):
        objects.pop(key, None)
        self.answer(204)

    def head_object(self, key, _):
        if key not in objects:
            self.answer(404)
        else:
            data, _ = objects[key]
            size = {} if self.fault == "bare" else {"Content_Length": str(len(data))}
            self.answer(200, b"", **self.etag(key), **size, **sealed[key])

    def get_object(self, key, _):
        if key not in objects:
            raise Refusal(404, "NoSuchKey")
        data, etag = objects[key]
        if self.headers.get("If-Match", etag) != etag:
            raise Refusal(412, "PreconditionFailed")
        given = self.headers.get("Range")
        if not given or self.fault == "whole":
            self.answer(200, data, **self.etag(key))
            return
        first, last = (int(n) for n in re.fullmatch(r"bytes=(\d+)-(\d+)", given).groups())
        if first >= len(data):
            raise Refusal(416, "InvalidRange")
        part = data[first:last + 1]
        self.answer(206, part, **self.etag(key), Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(data)}")

    def list_objects(self, query):
        if query.get("list-type") != "2" or query.get("encoding-type") != "url":
            self.broken(400, "InvalidArgument", "lists are asked for in version 2, with encoded keys")
        after = base64.b64decode(query.get("continuation-token", "")).decode()
        found = [k for k in sorted(objects, key=lambda k: k.encode()) if k.startswith(query.get("prefix", "")) and k.encode() > after.encode()]
        page = found[: int(read("page", "1000"))]
        more = len(found) > len(page)
        tags = {k: f"<ETag>&quot;{v[1:-1]}&quot;</ETag>" for k in page for v in self.etag(k).values()}
        text = "".join(f"<Contents><Key>{urllib.parse.quote_plus(k, safe='/')}</Key>{tags.get(k, '')}"
                       f"<Size>{-1 if self.fault == 'minus' else len(objects[k][0])}</Size></Contents>" for k in page)
        if self.fault == "stray":
            text += "<Contents><Key>o</Key><Size>1</Size></Contents>"
        token = f"<NextContinuationToken>{base64.b64encode(page[-1].encode()).decode()}</NextContinuationToken>" if more else ""
        self.answer(200, '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>'
                    f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}{text}</ListBucketResult>")

    # --- uploads in parts ---

    def list_uploads(self, query):
        after = (query.get("key-marker", "").encode(), query.get("upload-id-marker", ""))
        found = sorted((k.encode(), u) for u, (k, *_) in uploads.items() if k.startswith(query.get("prefix", "")))
        found = [f for f in found if f > after]
        page = found[: int(read("page", "1000"))]
        more = len(found) > len(page)
        if self.fault == "circle" and "key-marker" in query:
            page, more = [after], True
        escape = xml.sax.saxutils.escape
        text = "".join(f"<Upload><Key>{escape(k.decode())}</Key><UploadId>{u}</UploadId><Initiated>{uploads[u][3] if u in uploads else ''}</Initiated></Upload>"
                       for k, u in page)
        if more:
            text += f"<NextKeyMarker>{escape(page[-1][0].decode())}</NextKeyMarker><NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>"
        self.answer(200, f"<ListMultipartUploadsResult><IsTruncated>{'true' if more else 'false'}</IsTruncated>{text}</ListMultipartUploadsResult>")

    def begin(self, key):
        upload = secrets.token_urlsafe(12) + "+/="
        begun = datetime.datetime.fromtimestamp(now(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        uploads[upload] = (key, {}, self.sse(), begun)
        self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>")

    def multipart(self, key, query, body):
        upload = query["uploadId"]
        if upload not in uploads or uploads[upload][0] != key:
            raise Refusal(404, "NoSuchUpload")
        parts = uploads[upload][1]
        if self.command == "DELETE":
            del uploads[upload]
            self.answer(204)
        elif self.command == "PUT":
            number = int(query["partNumber"])
            parts[number] = body
            self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        else:
            self.complete(key, upload, parts, body.decode())

    def complete(self, key, upload, parts, text):
        named = [(int(n), e) for n, e in re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>(.*?)</ETag></Part>", text)]
        sums = [hashlib.md5(parts[n]).digest() for n in sorted(parts)]
        if [n for n, _ in named] != list(range(1, len(parts) + 1)) or any(e != f"&quot;{s.hex()}&quot;" for (_, e), s in zip(named, sums)):
            self.broken(400, "InvalidPart", "the list of parts is not what was sent")
        sizes = [len(parts[n]) for n in sorted(parts)]
        if any(size != sizes[0] or size < 5 << 20 for size in sizes[:-1]) or sizes[-1] > sizes[0]:
            self.broken(400, "EntityTooSmall", f"parts of {sizes} bytes")
        objects[key] = (b"".join(parts[n] for n in sorted(parts)), f'"{hashlib.md5(b"".join(sums)).hexdigest()}-{len(parts)}"')
        sealed[key] = uploads[upload][2]
        del uploads[upload]
        self.answer(200, f"\n\n<CompleteMultipartUploadResult><ETag>{objects[key][1]}</ETag></CompleteMultipartUploadResult>")


def take():
    new = os.path.join(folder, "new")
    for below, _, names in os.walk(new):
        for name in names:
            with open(os.path.join(below, name), "rb") as file:
                body = file.read()
            key = os.path.relpath(os.path.join(below, name), new)
            with lock:
                objects[key], sealed[key] = (body, f'"{hashlib.md5(body).hexdigest()}"'), {}
    os.remove(os.path.join(folder, "take"))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is not an error."""


server = Server(("127.0.0.1", 0), Service)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(os.path.join(folder, "port.part"), "w", encoding="utf-8") as port:
    port.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.part"), os.path.join(folder, "port"))
while not os.path.exists(os.path.join(folder, "quit")):
    if os.path.exists(os.path.join(folder, "take")):
        take()
    time.sleep(0.02)
