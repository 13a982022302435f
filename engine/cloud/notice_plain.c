/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices given by a file that appears, or by an address that answers 200, for clouds whose service is not
 * supported. */
#include "engine/cloud/notice_source.h"
#include "engine/files/fileio.h"

static clt_status poll_file(clt_notice_poller *poller, clt_notice *out)
{
    if (clt_file_exists(poller->options->file))
        clt_notice_make(out, CLT_NOTICE_STOP, "the file %s exists", poller->options->file);
    return CLT_OK;
}

static clt_status poll_url(clt_notice_poller *poller, clt_notice *out)
{
    clt_http_answer answer;
    poller->secret = true; /* an address may contain a key */
    CLT_TRY(clt_metadata_request(poller, "GET", "", NULL, 0, &answer));
    if (answer.code == 200)
        clt_notice_make(out, CLT_NOTICE_STOP, "cloud.notice_url answers 200");
    else if (answer.code != 404 && answer.code != 204)
        return clt_metadata_strange(poller, "", &answer);
    return CLT_OK;
}

const clt_notice_source clt_notice_file = {.name = "file", .seconds = 1, .poll = poll_file};
const clt_notice_source clt_notice_url = {.name = "url", .seconds = 1, .http = true, .poll = poll_url};
