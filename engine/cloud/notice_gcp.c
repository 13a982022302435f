/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of Google Compute Engine: a preemption, and maintenance of the host, which either moves the
 * machine or ends it. The service's answers have the header Metadata-Flavor; an answer without it comes from
 * something else. The server holds a request for preemptions until there is one, so that it is noticed
 * immediately. The request names the newest answer by its ETag, so that no change between two requests is
 * missed. Source: Google's pages on spot VMs, on the maintenance event and on waiting for changes of the
 * metadata server. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/cloud/notice_source.h"
#include "engine/base/thread.h"

#define PREEMPTED "/computeMetadata/v1/instance/preempted"
#define MAINTENANCE_SECONDS 10.0 /* between polls for maintenance, which is announced 60 seconds ahead */
#define LATE_SECONDS 5.0         /* how much longer than the requested wait an answer may take */

static clt_status get(clt_notice_poller *poller, const char *path, double seconds, clt_http_answer *answer)
{
    CLT_TRY(clt_metadata_request(poller, "GET", path, "Metadata-Flavor: Google", seconds, answer));
    if (answer->code != 200 || strcasecmp(clt_http_header(poller->http, "Metadata-Flavor"), "Google") != 0)
        return clt_metadata_strange(poller, path, answer);
    return CLT_OK;
}

/* Keeps the ETag of the newest answer, if an address may contain it without escaping. */
static void keep_tag(clt_notice_poller *poller)
{
    static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~";
    const char *tag = clt_http_header(poller->http, "ETag");
    bool usable = strspn(tag, plain) == strlen(tag) && strlen(tag) < sizeof poller->etag;
    (void)snprintf(poller->etag, sizeof poller->etag, "%s", usable ? tag : "");
}

/* Requests the state of preemption. The first request, and one after trouble, is answered immediately; any
 * other waits until the state changes or until the next poll for maintenance is due. */
static clt_status get_preempted(clt_notice_poller *poller, clt_http_answer *answer)
{
    char path[256] = PREEMPTED;
    const double left = poller->slow_at - clt_now();
    const int wait = left < 1 ? 1 : (int)left;
    if (poller->etag[0])
        (void)snprintf(path, sizeof path, PREEMPTED "?wait_for_change=true&timeout_sec=%d&last_etag=%s", wait,
                       poller->etag);
    const bool waits = poller->etag[0];
    poller->etag[0] = '\0';
    CLT_TRY(get(poller, path, waits ? wait + LATE_SECONDS : 0, answer));
    keep_tag(poller);
    return CLT_OK;
}

static clt_status poll_once(clt_notice_poller *poller, clt_notice *out)
{
    static const char maintenance[] = "/computeMetadata/v1/instance/maintenance-event";
    clt_http_answer answer;
    CLT_TRY(get_preempted(poller, &answer));
    if (strcmp(answer.body, "TRUE") == 0) {
        clt_notice_make(out, CLT_NOTICE_STOP, "preempted");
        return CLT_OK;
    }
    if (strcmp(answer.body, "FALSE") != 0)
        return clt_metadata_strange(poller, PREEMPTED, &answer);
    if (clt_now() < poller->slow_at)
        return CLT_OK;
    poller->slow_at = clt_now() + MAINTENANCE_SECONDS;
    CLT_TRY(get(poller, maintenance, 0, &answer));
    poller->calm = strcmp(answer.body, "NONE") == 0;
    if (!poller->calm)
        clt_notice_make(out, strncmp(answer.body, "TERMINATE", 9) == 0 ? CLT_NOTICE_STOP : CLT_NOTICE_SAVE,
                        "maintenance of the host: %s", answer.body);
    return CLT_OK;
}

const clt_notice_source clt_notice_gcp = {.name = "gcp",
                                          .address = "http://169.254.169.254",
                                          .variable = "GCE_METADATA_HOST",
                                          .seconds = 1,
                                          .http = true,
                                          .poll = poll_once};
