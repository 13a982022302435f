/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from services on the machine: a container's agent, and the metadata service with the instance's
 * role. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/cloud/notice_source.h"
#include "engine/storage/address.h"
#include "engine/storage/credentials_internal.h"
#include "engine/storage/secret.h"

#define CONNECT_SECONDS 1.0
#define AGENT_SECONDS 2.0

/* --- the agent of a container --- */

/* Keys are accepted only from an address for which no one on the network can answer. */
static clt_status agent_address(clt_str *out)
{
    static const char *const plain[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    const char *relative = clt_key_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               *full = clt_key_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative) {
        clt_str_printf(out, "http://169.254.170.2%s%s", relative[0] == '/' ? "" : "/", relative);
        return clt_str_check(out);
    }
    clt_str_append(out, full);
    CLT_TRY(clt_str_check(out));
    bool good =
        strncmp(full, "https://", 8) == 0 || (strncmp(full, "http://", 7) == 0 && clt_host_is_loopback(full));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        good = good || clt_host_is(full, plain[i]);
    if (!good)
        CLT_FAIL(CLT_ESTORAGE, "AWS_CONTAINER_CREDENTIALS_FULL_URI: keys are requested only from https://, "
                               "loopback, 169.254.170.2, 169.254.170.23 and [fd00:ec2::23]");
    return CLT_OK;
}

static clt_status agent_header(clt_secret *out)
{
    const char *token = clt_key_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
               *file = clt_key_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    CLT_WIPED char *text = NULL;
    if (!token && !file)
        return CLT_OK;
    if (file)
        CLT_TRY(clt_key_read_token(file, &text));
    else if (strpbrk(token, "\r\n"))
        CLT_FAIL(CLT_ESTORAGE, "AWS_CONTAINER_AUTHORIZATION_TOKEN has a line break");
    if (text)
        token = text;
    clt_secret_room(out, strlen("Authorization: ") + strlen(token));
    clt_str_printf(out, "Authorization: %s", token);
    return clt_str_check(out);
}

static bool has_container(const clt_key_seeker *seeker)
{
    (void)seeker;
    return clt_key_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
           clt_key_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
}

static clt_status fetch_container(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    CLT_SCOPED(clt_str) url = {0};
    CLT_SCOPED(clt_secret) header = {0};
    clt_http_answer answer;
    (void)there;
    CLT_TRY(agent_address(&url));
    CLT_TRY(agent_header(&header));
    const char *const headers[] = {"Accept: application/json", header.text, NULL};
    const clt_http_request request = {.method = "GET",
                                      .url = url.text,
                                      .headers = headers,
                                      .connect_seconds = AGENT_SECONDS,
                                      .seconds = AGENT_SECONDS,
                                      .limit = CLT_KEY_ANSWER,
                                      .ca_file = seeker->ca_file};
    CLT_TRY(clt_key_ask(seeker, &request, "the agent of the container", &answer));
    if (answer.code != 200)
        CLT_FAIL(CLT_ESTORAGE, "the agent of the container answers %d", answer.code);
    return clt_keys_from_json(answer.body, answer.size, "the agent of the container", CLT_KEYS_OF_SERVICE,
                              out);
}
const clt_key_source clt_keys_container = {
    "container", "the agent of the container (AWS_CONTAINER_CREDENTIALS_*)", has_container, fetch_container};

/* --- the role of an instance --- */

#define ROLES "/latest/meta-data/iam/security-credentials/"

static bool has_instance(const clt_key_seeker *seeker)
{
    const char *cloud = clt_cloud_found();
    (void)seeker;
    return cloud && strcmp(cloud, "aws") == 0;
}

/* A request to the metadata service. */
typedef struct metadata_request {
    clt_notice_poller *poller;
    const char *path;
    bool failed; /* the newest attempt had no answer, or its request for a token was refused */
} metadata_request;

/* If the request for a token is refused, the answer gets the refusal's code, so that it is repeated only if
 * that may help. */
static clt_status ask_metadata(void *context, clt_http_answer *answer)
{
    metadata_request *m = context;
    clt_status status = clt_metadata_aws(m->poller, m->path, answer);
    m->failed = status == CLT_EDATA;
    if (!m->failed)
        return status;
    clt_error_clear();
    *answer = (clt_http_answer){.code = m->poller->code, .body = "", .reason = m->poller->trouble};
    return CLT_OK;
}

/* CLT_EDATA: the service does not answer, and poller->trouble says why. */
static clt_status ask_service(clt_key_seeker *seeker, clt_notice_poller *poller, const char *path,
                              clt_http_answer *answer)
{
    metadata_request request = {.poller = poller, .path = path};
    CLT_TRY(clt_key_repeat(seeker, ask_metadata, &request, answer));
    if (request.failed)
        CLT_FAIL(CLT_EDATA, "%s", poller->trouble);
    return CLT_OK;
}

/* Requests the name of the role; "": the instance has none. */
static clt_status ask_role(clt_key_seeker *seeker, clt_notice_poller *poller, char *name, size_t size)
{
    clt_http_answer answer;
    name[0] = '\0';
    CLT_TRY(ask_service(seeker, poller, ROLES, &answer));
    if (answer.code == 404)
        return CLT_OK;
    size_t length = strcspn(answer.body, "\r\n");
    if (answer.code != 200 || length == 0 || length >= size || clt_text_plain(answer.body) < length)
        return clt_metadata_strange(poller, ROLES, &answer);
    snprintf(name, size, "%.*s", (int)length, answer.body);
    return CLT_OK;
}

static clt_status ask_keys(clt_key_seeker *seeker, clt_notice_poller *poller, const char *role, clt_keys *out)
{
    char path[512];
    clt_http_answer answer;
    snprintf(path, sizeof path, ROLES "%s", role);
    CLT_TRY(ask_service(seeker, poller, path, &answer));
    if (answer.code != 200)
        return clt_metadata_strange(poller, ROLES, &answer);
    return clt_keys_from_json(answer.body, answer.size, "the role of the instance", CLT_KEYS_OF_SERVICE, out);
}

/* Requests the role's name, and its keys unless `out` is NULL. */
static clt_status ask_instance(clt_key_seeker *seeker, char *role, size_t size, clt_keys *out)
{
    CLT_TRY(clt_key_http(seeker));
    clt_notice_poller poller = {.http = seeker->http};
    clt_metadata_address(&poller, &clt_notice_aws, "");
    clt_status status = ask_role(seeker, &poller, role, size);
    if (status == CLT_OK && role[0] && out)
        status = ask_keys(seeker, &poller, role, out);
    explicit_bzero(poller.token, sizeof poller.token);
    if (status == CLT_EDATA) /* the service did not answer */
        CLT_FAIL(CLT_ESTORAGE, "%s", poller.trouble);
    return status;
}

clt_status clt_key_role(clt_key_seeker *seeker, char *name, size_t size)
{
    return ask_instance(seeker, name, size, NULL);
}

static clt_status fetch_instance(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    char role[257];
    CLT_TRY(ask_instance(seeker, role, sizeof role, out));
    *there = role[0] != '\0';
    return CLT_OK;
}
const clt_key_source clt_keys_instance = {"instance", "the role of the instance, by the metadata service",
                                          has_instance, fetch_instance};
