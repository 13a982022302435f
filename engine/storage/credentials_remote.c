/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that services give: STS for the token of a pod, the agent of a container, the role of an instance. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/cloud/notice_source.h"
#include "engine/files/fileio.h"
#include "engine/storage/address.h"
#include "engine/storage/credentials_internal.h"
#include "engine/storage/dates.h"
#include "engine/storage/secret.h"
#include "engine/storage/sigv4.h"
#include "engine/storage/xml.h"

#define ANSWER_LIMIT 65536
#define TOKEN_LIMIT 65536 /* bytes of a file with a token */
#define CONNECT_SECONDS 1.0
#define AGENT_SECONDS 2.0
#define STS_SECONDS 10.0
#define ATTEMPTS 3

/* The content of a file without line breaks at its end. */
static clt_status read_token(const char *path, char **out)
{
    size_t size = 0;
    CLT_TRY(clt_file_read(path, false, TOKEN_LIMIT, CLT_ESTORAGE, out, &size));
    while (size > 0 && strchr("\r\n \t", (*out)[size - 1]))
        (*out)[--size] = '\0';
    if (strcspn(*out, "\r\n") != size)
        CLT_FAIL(CLT_ESTORAGE, "%s: the token has a line break, or a zero byte", path);
    return CLT_OK;
}

/* Asks until there is an answer that is no failure of the service, three times at most. */
static clt_status ask(clt_key_seeker *seeker, const clt_http_request *request, const char *name,
                      clt_http_answer *answer)
{
    CLT_TRY(clt_key_http(seeker));
    for (int i = 0; i < ATTEMPTS; i++) {
        CLT_TRY(clt_http_ask(seeker->http, request, answer));
        if (answer->code && answer->code < 500)
            break;
    }
    if (!answer->code)
        CLT_FAIL(CLT_ESTORAGE, "%s: %s", name, answer->reason);
    return CLT_OK;
}

/* --- STS --- */

static clt_status take_element(clt_xml xml, const char *name, char *buffer, size_t size)
{
    CLT_WIPED char *text = NULL;
    CLT_TRY(clt_alloc(&text, size, 1, "an answer of STS"));
    if (!clt_xml_copy(xml, name, text, size))
        CLT_FAIL(CLT_ESTORAGE, "STS: the answer has no %s that can be used", name);
    return clt_key_take(text, name, buffer, size);
}

static clt_status take_sts(const clt_http_answer *answer, clt_keys *out)
{
    char code[64], message[256], end[64];
    clt_xml all = {.text = answer->body, .size = answer->size}, keys;
    if (answer->code != 200 || !clt_xml_find(all, "Credentials", &keys, NULL)) {
        clt_xml_copy(all, "Code", code, sizeof code);
        clt_xml_copy(all, "Message", message, sizeof message);
        CLT_FAIL(CLT_ESTORAGE, "STS does not exchange the token of AWS_WEB_IDENTITY_TOKEN_FILE: %d %s: %s",
                 answer->code, code, message);
    }
    CLT_TRY(take_element(keys, "AccessKeyId", out->access, sizeof out->access));
    CLT_TRY(take_element(keys, "SecretAccessKey", out->secret, sizeof out->secret));
    CLT_TRY(take_element(keys, "SessionToken", out->token, sizeof out->token));
    if (!clt_xml_copy(keys, "Expiration", end, sizeof end) || !clt_date_iso(end, &out->expires))
        CLT_FAIL(CLT_ESTORAGE, "STS: Expiration is no date");
    return CLT_OK;
}

static clt_status sts_address(const clt_key_seeker *seeker, clt_str *out)
{
    const char *given = clt_key_variable("AWS_ENDPOINT_URL_STS");
    if (!given)
        given = clt_key_variable("AWS_ENDPOINT_URL");
    if (given) {
        clt_endpoint endpoint;
        CLT_TRY(clt_endpoint_parse(given, "the address of STS", "", &endpoint));
        clt_str_printf(out, "%s://%s/", endpoint.tls ? "https" : "http", endpoint.host);
    } else {
        clt_str_printf(out, "https://sts.%s.amazonaws.com%s/", seeker->region,
                       strncmp(seeker->region, "cn-", 3) == 0 ? ".cn" : "");
    }
    return clt_str_check(out);
}

static bool has_web(const clt_key_seeker *seeker)
{
    (void)seeker;
    return clt_key_variable("AWS_WEB_IDENTITY_TOKEN_FILE") != NULL;
}

/* The token's file is read each time, because what keeps it fresh replaces it. */
static clt_status fetch_web(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    const char *file = clt_key_variable("AWS_WEB_IDENTITY_TOKEN_FILE"),
               *role = clt_key_variable("AWS_ROLE_ARN"), *session = clt_key_variable("AWS_ROLE_SESSION_NAME");
    static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded", "Expect:", NULL};
    CLT_SCOPED(clt_str) url = {0};
    CLT_SCOPED(clt_secret) body = {0};
    CLT_WIPED char *token = NULL;
    clt_http_answer answer;
    (void)there;
    if (!session)
        session = "cltrain";
    if (!role)
        CLT_FAIL(CLT_ESTORAGE, "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is missing");
    CLT_TRY(read_token(file, &token));
    CLT_TRY(sts_address(seeker, &url));
    clt_secret_room(&body, 3 * (strlen(role) + strlen(session) + strlen(token)) + 128);
    clt_str_append(&body, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    clt_uri_encode(&body, role, false);
    clt_str_append(&body, "&RoleSessionName=");
    clt_uri_encode(&body, session, false);
    clt_str_append(&body, "&WebIdentityToken=");
    clt_uri_encode(&body, token, false);
    CLT_TRY(clt_str_check(&body));
    const clt_http_request request = {.method = "POST",
                                      .url = url.text,
                                      .headers = headers,
                                      .connect_seconds = STS_SECONDS,
                                      .seconds = STS_SECONDS,
                                      .limit = ANSWER_LIMIT,
                                      .body = body.text,
                                      .body_size = body.length,
                                      .proxies = !clt_host_is_local(url.text),
                                      .ca_file = seeker->ca_file};
    CLT_TRY(ask(seeker, &request, "STS", &answer));
    return take_sts(&answer, out);
}
const clt_key_source clt_keys_web = {"web", "STS, for the token of the pod (AWS_WEB_IDENTITY_TOKEN_FILE)",
                                     has_web, fetch_web};

/* --- the agent of a container --- */

/* Keys come only from an address that no one in between can answer for. */
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
        CLT_FAIL(CLT_ESTORAGE,
                 "AWS_CONTAINER_CREDENTIALS_FULL_URI: only https://, loopback, 169.254.170.2, 169.254.170.23 "
                 "and [fd00:ec2::23] are asked for keys");
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
        CLT_TRY(read_token(file, &text));
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
                                      .limit = ANSWER_LIMIT,
                                      .ca_file = seeker->ca_file};
    CLT_TRY(ask(seeker, &request, "the agent of the container", &answer));
    if (answer.code != 200)
        CLT_FAIL(CLT_ESTORAGE, "the agent of the container answers %d", answer.code);
    return clt_keys_from_json(answer.body, answer.size, "the agent of the container", out);
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

/* The name of the role; "": the instance has none. */
static clt_status ask_role(clt_notice_asker *asker, char *name, size_t size)
{
    clt_http_answer answer;
    name[0] = '\0';
    CLT_TRY(clt_metadata_aws(asker, ROLES, &answer));
    if (answer.code == 404)
        return CLT_OK;
    size_t length = strcspn(answer.body, "\r\n");
    if (answer.code != 200 || length == 0 || length >= size || clt_text_plain(answer.body) < length)
        return clt_metadata_strange(asker, ROLES, &answer);
    snprintf(name, size, "%.*s", (int)length, answer.body);
    return CLT_OK;
}

static clt_status ask_keys(clt_notice_asker *asker, const char *role, clt_keys *out)
{
    char path[512];
    clt_http_answer answer;
    snprintf(path, sizeof path, ROLES "%s", role);
    CLT_TRY(clt_metadata_aws(asker, path, &answer));
    if (answer.code != 200)
        return clt_metadata_strange(asker, ROLES, &answer);
    return clt_keys_from_json(answer.body, answer.size, "the role of the instance", out);
}

/* The role, and its keys unless out is NULL. */
static clt_status ask_instance(clt_key_seeker *seeker, char *role, size_t size, clt_keys *out)
{
    CLT_TRY(clt_key_http(seeker));
    clt_notice_asker asker = {.http = seeker->http};
    clt_metadata_address(&asker, &clt_notice_aws, "");
    clt_status status = ask_role(&asker, role, size);
    if (status == CLT_OK && role[0] && out)
        status = ask_keys(&asker, role, out);
    explicit_bzero(asker.token, sizeof asker.token);
    if (status == CLT_EDATA) /* the service did not answer */
        CLT_FAIL(CLT_ESTORAGE, "%s", asker.trouble);
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
