/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of AWS, from the instance metadata service, version 2: an interruption of a spot instance, the end
 * of an instance in an auto-scaling group, a recommendation to rebalance, scheduled maintenance. An answer
 * 404 means that there is no notice. Source: the EC2 user guide, "Spot Instance interruption notices". */
#include <string.h>

#include "engine/base/thread.h"
#include "engine/cloud/notice_source.h"
#include "engine/json/json.h"

#define SLOW_SECONDS 60.0 /* between polls for events that are announced days ahead */

/* Parses an answer's JSON text, whose root must have the type `type`. *out stays NULL if there is no notice
 * (404). */
static clt_status get_json(clt_notice_poller *poller, const char *path, clt_json_type type,
                           clt_json_doc **out)
{
    clt_http_answer answer;
    CLT_TRY(clt_metadata_aws(poller, path, &answer));
    if (answer.code == 404)
        return CLT_OK;
    if (answer.code == 200 && clt_json_parse(answer.body, answer.size, path, CLT_EDATA, out) == CLT_OK &&
        clt_json_typeof(clt_json_root(*out)) == type)
        return CLT_OK;
    return clt_metadata_strange(poller, path, &answer);
}

static const char *text(const clt_json *object, const char *key)
{
    return clt_json_string(clt_json_get(object, key));
}

static clt_status poll_interruption(clt_notice_poller *poller, clt_notice *out)
{
    static const char path[] = "/latest/meta-data/spot/instance-action";
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(get_json(poller, path, CLT_JSON_OBJECT, &doc));
    if (!doc)
        return CLT_OK;
    const clt_json *root = clt_json_root(doc);
    const char *action = text(root, "action");
    if (!action[0])
        return clt_metadata_strange(poller, path, &(clt_http_answer){.code = 200});
    clt_notice_make(out, CLT_NOTICE_STOP, "%s at %s", action, text(root, "time"));
    return CLT_OK;
}

static clt_status poll_rebalance(clt_notice_poller *poller, clt_notice *out)
{
    static const char path[] = "/latest/meta-data/events/recommendations/rebalance";
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(get_json(poller, path, CLT_JSON_OBJECT, &doc));
    if (doc)
        clt_notice_make(out, CLT_NOTICE_SAVE, "rebalance recommended at %s",
                        text(clt_json_root(doc), "noticeTime"));
    return CLT_OK;
}

static clt_status poll_group(clt_notice_poller *poller, clt_notice *out)
{
    static const char path[] = "/latest/meta-data/autoscaling/target-lifecycle-state";
    clt_http_answer answer;
    CLT_TRY(clt_metadata_aws(poller, path, &answer));
    if (answer.code == 200 && strcmp(answer.body, "Terminated") == 0)
        clt_notice_make(out, CLT_NOTICE_STOP, "the auto-scaling group ends this instance");
    else if (answer.code != 200 && answer.code != 404)
        return clt_metadata_strange(poller, path, &answer);
    return CLT_OK;
}

static clt_status poll_maintenance(clt_notice_poller *poller, clt_notice *out)
{
    static const char path[] = "/latest/meta-data/events/maintenance/scheduled";
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(get_json(poller, path, CLT_JSON_ARRAY, &doc));
    for (const clt_json *event = clt_json_first(clt_json_root(doc)); event; event = clt_json_next(event))
        if (clt_json_typeof(event) == CLT_JSON_OBJECT && strcmp(text(event, "State"), "active") == 0)
            clt_notice_make(out, CLT_NOTICE_SAVE, "%s from %s on (%s)", text(event, "Code"),
                            text(event, "NotBefore"), text(event, "EventId"));
    return CLT_OK;
}

/* The service counts as answering if the request for interruptions is answered; it may refuse the other
 * requests. */
static void poll_more(clt_notice_poller *poller, clt_notice *out)
{
    bool slow = clt_now() >= poller->slow_at;
    clt_notice group = {.kind = CLT_NOTICE_NONE};
    poller->slow_at = slow ? clt_now() + SLOW_SECONDS : poller->slow_at;
    if (poll_rebalance(poller, out) != CLT_OK)
        clt_error_clear();
    if (slow && poll_maintenance(poller, out) != CLT_OK)
        clt_error_clear();
    if (slow && poll_group(poller, &group) != CLT_OK)
        clt_error_clear();
    if (group.kind == CLT_NOTICE_STOP)
        *out = group;
}

static clt_status poll_once(clt_notice_poller *poller, clt_notice *out)
{
    CLT_TRY(poll_interruption(poller, out));
    if (out->kind == CLT_NOTICE_NONE)
        poll_more(poller, out);
    return CLT_OK;
}

const clt_notice_source clt_notice_aws = {.name = "aws",
                                          .address = "http://169.254.169.254",
                                          .variable = "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                          .seconds = 5,
                                          .http = true,
                                          .poll = poll_once};
