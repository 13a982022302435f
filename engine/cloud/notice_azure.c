/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of Azure: scheduled events that name this machine. The first answer may take two minutes, because
 * the service starts with the first request. Source: Azure's page "Scheduled Events for Linux VMs". */
#include <stdlib.h>
#include <string.h>

#include "engine/cloud/notice_source.h"
#include "engine/json/json.h"

#define FIRST_SECONDS 130.0

static const char name_path[] = "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
                  events_path[] = "/metadata/scheduledevents?api-version=2020-07-01";

static clt_status learn_name(clt_notice_poller *poller)
{
    clt_http_answer answer;
    CLT_TRY(clt_metadata_request(poller, "GET", name_path, "Metadata: true", 0, &answer));
    if (answer.code != 200 || answer.size == 0 || answer.size >= sizeof poller->name)
        return clt_metadata_strange(poller, name_path, &answer);
    memcpy(poller->name, answer.body, answer.size + 1);
    return CLT_OK;
}

static const char *text(const clt_json *object, const char *key)
{
    return clt_json_string(clt_json_get(object, key));
}

static bool concerns(const clt_json *event, const char *machine)
{
    const clt_json *machines = clt_json_get(event, "Resources");
    for (const clt_json *m = clt_json_first(machines); m; m = clt_json_next(m))
        if (strcmp(clt_json_string(m), machine) == 0)
            return true;
    return false;
}

/* A notice that the machine stops takes precedence over one that it pauses, whatever their order. */
static void take_event(const clt_notice_poller *poller, const clt_json *event, clt_notice *out)
{
    const char *type = text(event, "EventType"), *time = text(event, "NotBefore");
    clt_notice_kind kind = strcmp(type, "Freeze") == 0 ? CLT_NOTICE_SAVE : CLT_NOTICE_STOP;
    if (clt_json_typeof(event) != CLT_JSON_OBJECT || !type[0] || !concerns(event, poller->name) ||
        kind <= out->kind)
        return;
    clt_notice_make(out, kind, "%s %s%s (%s)", type, time[0] ? "not before " : "has begun", time,
                    text(event, "EventId"));
}

static clt_status poll_once(clt_notice_poller *poller, clt_notice *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    clt_http_answer answer;
    int64_t number = -1;
    CLT_TRY(clt_metadata_request(poller, "GET", events_path, "Metadata: true",
                                 poller->seen < 0 ? FIRST_SECONDS : 0, &answer));
    if (answer.code != 200 ||
        clt_json_parse(answer.body, answer.size, events_path, CLT_EDATA, &doc) != CLT_OK)
        return clt_metadata_strange(poller, events_path, &answer);
    const clt_json *root = clt_json_root(doc), *events = clt_json_get(root, "Events");
    if (!clt_json_int(clt_json_get(root, "DocumentIncarnation"), &number) ||
        clt_json_typeof(events) != CLT_JSON_ARRAY)
        return clt_metadata_strange(poller, events_path, &answer);
    if (number == poller->seen)
        return CLT_OK;
    if (!poller->name[0] && clt_json_first(events))
        CLT_TRY(learn_name(poller));
    for (const clt_json *event = clt_json_first(events); event; event = clt_json_next(event))
        take_event(poller, event, out);
    poller->seen = number;
    return CLT_OK;
}

const clt_notice_source clt_notice_azure = {
    .name = "azure", .address = "http://169.254.169.254", .seconds = 1, .http = true, .poll = poll_once};
