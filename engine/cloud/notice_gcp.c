/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of Google Compute Engine: a preemption, and maintenance of the host, which either moves the machine
 * or ends it. Answers carry the header Metadata-Flavor; others come from something else. Source: Google's
 * pages on spot VMs and on the maintenance event of the metadata server. */
#include <string.h>
#include <strings.h>

#include "engine/cloud/notice_source.h"
#include "engine/base/thread.h"

#define MAINTENANCE_SECONDS 10.0 /* between questions for maintenance, which is told 60 seconds before */

static clt_status get(clt_notice_asker *asker, const char *path, clt_http_answer *answer)
{
    CLT_TRY(clt_metadata_ask(asker, "GET", path, "Metadata-Flavor: Google", 0, answer));
    if (answer->code != 200 || strcasecmp(clt_http_header(asker->http, "Metadata-Flavor"), "Google") != 0)
        return clt_metadata_strange(asker, path, answer);
    return CLT_OK;
}

static clt_status ask(clt_notice_asker *asker, clt_notice *out)
{
    static const char preempted[] = "/computeMetadata/v1/instance/preempted",
                      maintenance[] = "/computeMetadata/v1/instance/maintenance-event";
    clt_http_answer answer;
    CLT_TRY(get(asker, preempted, &answer));
    if (strcmp(answer.body, "TRUE") == 0) {
        clt_notice_make(out, CLT_NOTICE_STOP, "preempted");
        return CLT_OK;
    }
    if (strcmp(answer.body, "FALSE") != 0)
        return clt_metadata_strange(asker, preempted, &answer);
    if (clt_now() < asker->slow_at)
        return CLT_OK;
    asker->slow_at = clt_now() + MAINTENANCE_SECONDS;
    CLT_TRY(get(asker, maintenance, &answer));
    asker->calm = strcmp(answer.body, "NONE") == 0;
    if (!asker->calm)
        clt_notice_make(out, strncmp(answer.body, "TERMINATE", 9) == 0 ? CLT_NOTICE_STOP : CLT_NOTICE_SAVE,
                        "maintenance of the host: %s", answer.body);
    return CLT_OK;
}

const clt_notice_source clt_notice_gcp = {.name = "gcp",
                                          .address = "http://169.254.169.254",
                                          .variable = "GCE_METADATA_HOST",
                                          .seconds = 1,
                                          .http = true,
                                          .ask = ask};
