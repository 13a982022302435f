/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of Alibaba Cloud: the time at which a preemptible instance is released. 404 or an empty answer
 * means that no release is planned. Source: Alibaba Cloud's page on instance metadata. */
#include <ctype.h>

#include "engine/cloud/notice_source.h"

static clt_status poll_once(clt_notice_poller *poller, clt_notice *out)
{
    static const char path[] = "/latest/meta-data/instance/spot/termination-time";
    clt_http_answer answer;
    CLT_TRY(clt_metadata_with_token(poller, path, "X-aliyun-ecs-metadata-token-ttl-seconds: 21600",
                                    "X-aliyun-ecs-metadata-token", true, &answer));
    if (answer.code == 404 || (answer.code == 200 && answer.size == 0))
        return CLT_OK;
    if (answer.code != 200 || !isdigit((unsigned char)answer.body[0]))
        return clt_metadata_strange(poller, path, &answer);
    clt_notice_make(out, CLT_NOTICE_STOP, "released at %s", answer.body);
    return CLT_OK;
}

const clt_notice_source clt_notice_alibaba = {
    .name = "alibaba", .address = "http://100.100.100.200", .seconds = 5, .http = true, .poll = poll_once};
