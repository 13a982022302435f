#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# metadata_double.py KIND FOLDER: simulates the metadata service of a cloud (aws, gcp, azure, alibaba) or an address (url) on a free port
# of 127.0.0.1, which FOLDER/port gets. It is stricter than the real services: each broken rule is a line of FOLDER/violations, and is
# answered as the real service would. What it answers depends on files in FOLDER, which may come and go:
#   notice       the machine will be taken away
#   end          it will be taken away, told in another way: by the auto-scaling group (aws), by maintenance (gcp), by an event that has
#                already begun (azure)
#   hint         a rebalance, a maintenance that moves the machine, or a freeze: save and go on
#   maintenance  scheduled maintenance (aws): save and go on
#   expire       tokens from before this file are no longer valid
#   old          no tokens: the service is from before them (aws, alibaba)
#   mute         no answer at all: the connection stays open
#   garble       answers are no JSON and no known word
# A question to gcp may wait for a change: it is answered when `notice` or `garble` comes or goes, or when its time is over.
# FOLDER/requests counts the requests. Ends when FOLDER/quit exists.
import http.server
import os
import secrets
import sys
import threading
import time
import urllib.parse

kind, folder = sys.argv[1:3]
tokens = {}


def there(name):
    return os.path.exists(os.path.join(folder, name))


def note(name, text):
    with open(os.path.join(folder, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


class Service(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, body="", **headers):
        data = body.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def broken(self, code, rule):
        note("violations", f"{self.command} {self.path}: {rule}")
        self.answer(code, rule)

    def refused(self):
        """Whether the request was answered already."""
        note("requests", self.path)
        while there("mute") and not there("quit"):
            time.sleep(0.02)
        if "X-Forwarded-For" in self.headers or "Proxy-Connection" in self.headers:
            self.broken(403, "the request went through a proxy")
        elif self.headers.get("User-Agent", "").split("/")[0] != "cltrain":
            self.broken(403, "the program does not give its name")
        else:
            return False
        return True

    def do_PUT(self):
        if self.refused():
            return
        ttl = {"aws": "X-aws-ec2-metadata-token-ttl-seconds", "alibaba": "X-aliyun-ecs-metadata-token-ttl-seconds"}.get(kind)
        if ttl is None or self.path != "/latest/api/token":
            self.broken(405, "this path takes no PUT")
        elif there("old"):
            self.answer(404)
        elif not self.headers.get(ttl, "").isdigit() or not 1 <= int(self.headers[ttl]) <= 21600:
            self.broken(400, "a token needs its time to live")
        else:
            token = secrets.token_urlsafe(32)
            tokens[token] = time.time()
            self.answer(200, token)

    def has_token(self, header):
        token = self.headers.get(header)
        if there("old"):
            return token is None or bool(self.broken(403, "there are no tokens here"))
        made = tokens.get(token)
        if token is not None and made is None:
            self.broken(401, "this token is not of this service")
        elif token is None:
            self.broken(401, "a token is needed")
        elif there("expire") and made < os.path.getmtime(os.path.join(folder, "expire")):
            self.answer(401)
        else:
            return True
        return False

    def do_GET(self):
        if not self.refused():
            getattr(self, kind)()

    def aws(self):
        if not self.has_token("X-aws-ec2-metadata-token"):
            return
        base = "/latest/meta-data/"
        if there("garble"):
            self.answer(200, "<html>")
        elif self.path == base + "spot/instance-action":
            if there("notice"):
                self.answer(200, '{"action": "terminate", "time": "2017-09-18T08:22:00Z"}')
            else:
                self.answer(404)
        elif self.path == base + "events/recommendations/rebalance":
            if there("hint"):
                self.answer(200, '{"noticeTime": "2020-10-27T08:22:00Z"}')
            else:
                self.answer(404)
        elif self.path == base + "autoscaling/target-lifecycle-state":
            self.answer(200, "Terminated" if there("end") else "InService")
        elif self.path == base + "events/maintenance/scheduled":
            event = '[{"Code": "system-reboot", "EventId": "instance-event-1", "NotBefore": "21 Jan 2019 09:00:43 GMT", "State": "%s"}]'
            self.answer(200, event % ("active" if there("maintenance") else "completed"))
        elif self.path == base + "iam/security-credentials/":
            self.answer(404)  # the instance has no role
        else:
            self.broken(404, "there is no such path")

    def gcp(self):
        flavour = {"Metadata_Flavor": "Google"}
        if self.headers.get("Metadata-Flavor") != "Google":
            self.broken(403, "Metadata-Flavor is missing")
        elif there("garble"):
            self.answer(200, "TRUE")  # by something else: the header is missing
        elif self.path.split("?")[0] == "/computeMetadata/v1/instance/preempted":
            self.preempted(flavour)
        elif self.path == "/computeMetadata/v1/instance/maintenance-event":
            self.answer(200, "TERMINATE_ON_HOST_MAINTENANCE" if there("end") else
                        "MIGRATE_ON_HOST_MAINTENANCE" if there("hint") else "NONE", **flavour)
        else:
            self.broken(404, "there is no such path")

    def preempted(self, flavour):
        def tag():
            return "%016x" % (0x51ab1e + there("notice"))

        asked = urllib.parse.parse_qs(self.path.partition("?")[2], strict_parsing="?" in self.path)
        waits = asked.pop("wait_for_change", ["false"]) == ["true"]
        seconds, last = asked.pop("timeout_sec", [""])[0], asked.pop("last_etag", [""])[0]
        if asked or (waits and not (seconds.isdigit() and 1 <= int(seconds) <= 60)):
            self.broken(400, "this is not a question that waits for a change")
            return
        if waits and not last:
            self.broken(400, "a change between two questions would be missed")
            return
        until = time.monotonic() + (int(seconds) if waits else 0)
        while last == tag() and time.monotonic() < until and not there("garble") and not there("quit"):
            time.sleep(0.01)
        if there("garble"):
            self.answer(200, "TRUE")
        else:
            self.answer(200, "TRUE" if there("notice") else "FALSE", ETag=tag(), **flavour)

    def azure(self):
        event = '{"EventId": "%s", "EventStatus": "%s", "EventType": "%s", "ResourceType": "VirtualMachine", "Resources": ["%s"], ' \
                '"NotBefore": "%s", "DurationInSeconds": 9}'
        coming, begun = "Mon, 19 Sep 2016 18:29:47 GMT", ''
        # an event of another machine is always there
        events = [event % ("A", "Scheduled", "Preempt", "other", coming)]
        events += [event % ("B", "Scheduled", "Freeze", "this-machine", coming)] if there("hint") else []
        events += [event % ("C", "Scheduled", "Preempt", "this-machine", coming)] if there("notice") else []
        events += [event % ("D", "Started", "Redeploy", "this-machine", begun)] if there("end") else []
        if self.headers.get("Metadata") != "true":
            self.broken(400, "Metadata is missing")
        elif there("garble"):
            self.answer(200, '{"Events": []}')
        elif self.path == "/metadata/instance/compute/name?api-version=2021-02-01&format=text":
            self.answer(200, "this-machine")
        elif self.path == "/metadata/scheduledevents?api-version=2020-07-01":
            self.answer(200, '{"DocumentIncarnation": %d, "Events": [%s]}' % (len(events), ", ".join(events)))
        else:
            self.broken(404, "there is no such path")

    def alibaba(self):
        if not self.has_token("X-aliyun-ecs-metadata-token"):
            return
        if self.path != "/latest/meta-data/instance/spot/termination-time":
            self.broken(404, "there is no such path")
        elif there("garble"):
            self.answer(200, "<html>")
        elif there("notice"):
            self.answer(200, "2015-01-05T18:02:00Z")
        elif there("hint"):
            self.answer(200)
        else:
            self.answer(404)

    def url(self):
        if self.path == "/elsewhere":
            self.broken(200, "a redirection was followed")
        elif self.path != "/?key=secret":
            self.broken(404, "the address has lost its key")
        elif there("garble"):
            self.answer(302, Location="/elsewhere")
        else:
            self.answer(200 if there("notice") else 404)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is not an error."""


server = Server(("127.0.0.1", 0), Service)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(os.path.join(folder, "port.part"), "w", encoding="utf-8") as port:
    port.write(str(server.server_address[1]))
os.rename(os.path.join(folder, "port.part"), os.path.join(folder, "port"))
while not there("quit"):
    time.sleep(0.02)
