/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that STS gives for a role: in exchange for a pod's token, or, for a profile with role_arn, in
 * exchange for the keys of another profile or source. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/thread.h"
#include "engine/files/sha256.h"
#include "engine/storage/address.h"
#include "engine/storage/credentials_internal.h"
#include "engine/storage/dates.h"
#include "engine/storage/secret.h"
#include "engine/storage/sigv4.h"
#include "engine/storage/xml.h"

#define STS_SECONDS 10.0
#define CLOCK_SECONDS 600.0 /* servers refuse a signature whose time is wrong by 15 minutes */
#define MOST_PROFILES 8     /* length of a chain in which each profile names the next one as its source */
#define FORM "Content-Type: application/x-www-form-urlencoded"

/* --- the service --- */

static clt_status take_element(clt_xml xml, const char *name, char *buffer, size_t size)
{
    CLT_WIPED char *text = NULL;
    CLT_TRY(clt_alloc(&text, size, 1, "an answer of STS"));
    if (!clt_xml_copy(xml, name, text, size))
        CLT_FAIL(CLT_ESTORAGE, "STS: the answer has no %s that can be used", name);
    return clt_key_take(text, name, buffer, size);
}

/* Reads the keys from an answer of STS. `what` completes the message "STS does not ...". */
static clt_status take_sts(const clt_http_answer *answer, const char *what, clt_keys *out)
{
    char code[64], message[256], end[64];
    clt_xml all = {.text = answer->body, .size = answer->size}, keys;
    if (answer->code != 200 || !clt_xml_find(all, "Credentials", &keys, NULL)) {
        clt_xml_copy(all, "Code", code, sizeof code);
        clt_xml_copy(all, "Message", message, sizeof message);
        CLT_FAIL(CLT_ESTORAGE, "STS does not %s: %d %s: %s", what, answer->code, code, message);
    }
    CLT_TRY(take_element(keys, "AccessKeyId", out->access, sizeof out->access));
    CLT_TRY(take_element(keys, "SecretAccessKey", out->secret, sizeof out->secret));
    CLT_TRY(take_element(keys, "SessionToken", out->token, sizeof out->token));
    if (!clt_xml_copy(keys, "Expiration", end, sizeof end) || !clt_date_iso(end, &out->expires))
        CLT_FAIL(CLT_ESTORAGE, "STS: the value of Expiration is not a date");
    return CLT_OK;
}

/* The address of STS: the region's server, unless the environment names another one. */
static clt_status find_sts(const clt_key_seeker *seeker, clt_endpoint *out)
{
    const char *ignored = clt_key_variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
               *given = clt_key_variable("AWS_ENDPOINT_URL_STS");
    if (!given)
        given = clt_key_variable("AWS_ENDPOINT_URL");
    if (given && !(ignored && strcasecmp(ignored, "true") == 0))
        return clt_endpoint_parse(given, "the address of STS", "", out);
    *out = (clt_endpoint){.tls = true};
    snprintf(out->host, sizeof out->host, "sts.%s.amazonaws.com%s", seeker->region,
             strncmp(seeker->region, "cn-", 3) == 0 ? ".cn" : "");
    return CLT_OK;
}

static clt_status ask_sts(clt_key_seeker *seeker, const clt_endpoint *place, const clt_str *form,
                          const char *const *headers, clt_http_answer *answer)
{
    char url[300];
    snprintf(url, sizeof url, "%s://%s/", place->tls ? "https" : "http", place->host);
    const clt_http_request request = {.method = "POST",
                                      .url = url,
                                      .headers = headers,
                                      .connect_seconds = STS_SECONDS,
                                      .seconds = STS_SECONDS,
                                      .limit = CLT_KEY_ANSWER,
                                      .body = form->text,
                                      .body_size = form->length,
                                      .proxies = !clt_host_is_local(url),
                                      .ca_file = seeker->ca_file};
    return clt_key_ask(seeker, &request, "STS", answer);
}

static void add_field(clt_str *form, const char *name, const char *value)
{
    clt_str_printf(form, "&%s=", name);
    clt_uri_encode(form, value, false);
}

/* --- the token of a pod --- */

/* A setting of the environment or, if the environment lacks it, of the profile. If another profile names
 * this one as its source, the environment does not count. */
static const char *web_setting(const clt_key_seeker *seeker, const char *variable, const char *key)
{
    const char *value = seeker->is_source ? NULL : clt_key_variable(variable);
    return value ? value : clt_profile_find(seeker->profile, seeker->name, key);
}

static bool has_web(const clt_key_seeker *seeker)
{
    return web_setting(seeker, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file") != NULL;
}

/* The token's file is read each time, because whatever renews the token replaces the file. */
static clt_status fetch_web(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    const char *file = web_setting(seeker, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file"),
               *role = web_setting(seeker, "AWS_ROLE_ARN", "role_arn"),
               *session = web_setting(seeker, "AWS_ROLE_SESSION_NAME", "role_session_name");
    static const char *const headers[] = {FORM, "Expect:", NULL};
    CLT_SCOPED(clt_secret) form = {0};
    CLT_WIPED char *token = NULL;
    clt_endpoint place;
    clt_http_answer answer;
    (void)there;
    if (!session)
        session = "cltrain";
    if (!role)
        CLT_FAIL(CLT_ESTORAGE, "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is missing");
    CLT_TRY(clt_key_read_token(file, &token));
    CLT_TRY(find_sts(seeker, &place));
    clt_secret_room(&form, 3 * (strlen(role) + strlen(session) + strlen(token)) + 128);
    clt_str_append(&form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
    add_field(&form, "RoleArn", role);
    add_field(&form, "RoleSessionName", session);
    add_field(&form, "WebIdentityToken", token);
    CLT_TRY(clt_str_check(&form));
    CLT_TRY(ask_sts(seeker, &place, &form, headers, &answer));
    return take_sts(&answer, "exchange the token of AWS_WEB_IDENTITY_TOKEN_FILE", out);
}
const clt_key_source clt_keys_web = {"web", "STS, for the token of the pod (AWS_WEB_IDENTITY_TOKEN_FILE)",
                                     has_web, fetch_web};

/* --- the role of a profile --- */

static const char *setting(const clt_key_seeker *seeker, const char *key)
{
    return clt_profile_find(seeker->profile, seeker->name, key);
}

static bool has_role(const clt_key_seeker *seeker)
{
    return setting(seeker, "role_arn") && !setting(seeker, "web_identity_token_file");
}

static clt_status assume_role(clt_key_seeker *seeker, clt_keys *out);

/* Fetches keys from the first source in the list `from` that is set up. */
static clt_status fetch_first(clt_key_seeker *seeker, const clt_key_source *const *from, clt_keys *out,
                              bool *there)
{
    *there = false;
    for (; *from && !*there; from++) {
        if (!(*from)->is_set(seeker))
            continue;
        *there = true;
        CLT_TRY((*from)->fetch(seeker, out, there));
    }
    return CLT_OK;
}

/* Fetches the keys of seeker->name, a profile that another profile names as its source. Keys of the profile
 * take precedence over its role. */
static clt_status fetch_source(clt_key_seeker *seeker, clt_keys *out)
{
    static const clt_key_source *const files[] = {&clt_keys_web,     &clt_keys_sso,    &clt_keys_shared,
                                                  &clt_keys_process, &clt_keys_config, NULL};
    bool there = false,
         own = setting(seeker, "aws_access_key_id") || setting(seeker, "aws_secret_access_key");
    if (!own && has_role(seeker))
        return assume_role(seeker, out);
    CLT_TRY(fetch_first(seeker, files, out, &there));
    if (!there)
        CLT_FAIL(CLT_ESTORAGE, "the profile '%s', which is a source_profile, has no keys", seeker->name);
    return CLT_OK;
}

static clt_status fetch_profile(clt_key_seeker *seeker, const char *name, clt_keys *out)
{
    const char *before = seeker->name;
    const bool was_source = seeker->is_source;
    if (!clt_profile_exists(seeker->profile, name))
        CLT_FAIL(CLT_ESTORAGE, "the profile '%s' names the source_profile '%s', which does not exist",
                 seeker->name, name);
    if (++seeker->depth > MOST_PROFILES)
        CLT_FAIL(CLT_ESTORAGE, "the profile '%s': its source_profile leads in a circle", seeker->name);
    seeker->name = name;
    seeker->is_source = true;
    clt_status status = fetch_source(seeker, out);
    seeker->name = before;
    seeker->is_source = was_source;
    return status;
}

/* Fetches the keys that sign the request for a role. */
static clt_status fetch_base(clt_key_seeker *seeker, clt_keys *out)
{
    static const struct {
        const char *name;
        const clt_key_source *source;
    } named[] = {{"Environment", &clt_keys_env},
                 {"EcsContainer", &clt_keys_container},
                 {"Ec2InstanceMetadata", &clt_keys_instance}};
    const char *profile = setting(seeker, "source_profile"), *name = setting(seeker, "credential_source");
    if (!profile == !name)
        CLT_FAIL(CLT_ESTORAGE,
                 "the profile '%s' has a role_arn, and needs one of source_profile and credential_source",
                 seeker->name);
    if (profile)
        return fetch_profile(seeker, profile, out);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const clt_key_source *const one[] = {named[i].source, NULL};
        bool there;
        if (strcasecmp(named[i].name, name) != 0)
            continue;
        CLT_TRY(fetch_first(seeker, one, out, &there));
        if (!there)
            CLT_FAIL(CLT_ESTORAGE, "the profile '%s': credential_source %s has no keys here", seeker->name,
                     name);
        return CLT_OK;
    }
    CLT_FAIL(CLT_ESTORAGE,
             "the profile '%s': credential_source is Environment, EcsContainer or Ec2InstanceMetadata",
             seeker->name);
}

/* Texts of a request that is signed. */
typedef struct signed_form {
    char time[CLT_SIGV4_TIME], time_line[64];
    clt_secret token_line, line;
} signed_form;

static void free_signed_form(signed_form *s)
{
    clt_secret_free(&s->token_line);
    clt_secret_free(&s->line);
}
CLT_SCOPED_VALUE(signed_form, free_signed_form)

static clt_status sign_form(const clt_key_seeker *seeker, const clt_endpoint *place, const clt_str *form,
                            const clt_keys *keys, double now, signed_form *out)
{
    char hash[CLT_SHA256_TEXT];
    clt_sigv4_time((int64_t)floor(now), out->time);
    const clt_pair headers[] = {{"content-type", strchr(FORM, ' ') + 1},
                                {"host", place->host},
                                {"x-amz-date", out->time},
                                {"x-amz-security-token", keys->token}};
    const clt_sigv4 request = {.method = "POST",
                               .path = "/",
                               .headers = headers,
                               .n_headers = keys->token[0] ? 4 : 3,
                               .payload = clt_sha256_text(form->text, form->length, hash),
                               .service = "sts",
                               .region = seeker->region,
                               .access_key = keys->access,
                               .secret_key = keys->secret,
                               .time = (int64_t)floor(now)};
    snprintf(out->time_line, sizeof out->time_line, "X-Amz-Date: %s", out->time);
    clt_secret_room(&out->token_line, sizeof keys->token + 32);
    clt_str_printf(&out->token_line, "X-Amz-Security-Token: %s", keys->token);
    clt_secret_room(&out->line, 1024);
    clt_str_append(&out->line, "Authorization: ");
    CLT_TRY(clt_sigv4_sign(&request, &out->line));
    CLT_TRY(clt_str_check(&out->token_line));
    return clt_str_check(&out->line);
}

/* Sends the form. If this machine's clock is wrong, sends it once more with the service's time. */
static clt_status ask_signed(clt_key_seeker *seeker, const clt_str *form, const clt_keys *keys,
                             clt_http_answer *answer)
{
    clt_endpoint place;
    double offset = 0;
    CLT_TRY(find_sts(seeker, &place));
    for (int attempt = 0; attempt < 2; attempt++) {
        CLT_SCOPED(signed_form) s = {.time = ""};
        int64_t date;
        CLT_TRY(sign_form(seeker, &place, form, keys, clt_wall_time() + offset, &s));
        const char *const headers[] = {
            FORM, "Expect:", s.time_line, s.line.text, keys->token[0] ? s.token_line.text : NULL, NULL};
        CLT_TRY(ask_sts(seeker, &place, form, headers, answer));
        if ((answer->code != 400 && answer->code != 403) ||
            !clt_date_http(clt_http_header(seeker->http, "Date"), &date))
            break;
        offset = (double)date - clt_wall_time();
        if (fabs(offset) < CLOCK_SECONDS)
            break;
    }
    return CLT_OK;
}

static clt_status assume_role(clt_key_seeker *seeker, clt_keys *out)
{
    const char *role = setting(seeker, "role_arn"), *session = setting(seeker, "role_session_name"),
               *external = setting(seeker, "external_id"), *seconds = setting(seeker, "duration_seconds");
    CLT_SCOPED(clt_str) form = {0}, what = {0};
    clt_keys base = {.expires = 0};
    clt_http_answer answer;
    if (setting(seeker, "mfa_serial"))
        CLT_FAIL(CLT_ESTORAGE,
                 "the profile '%s' has an mfa_serial, and a training cannot ask for a code: 'aws configure "
                 "export-credentials --format env' asks, and gives the keys of the role",
                 seeker->name);
    clt_str_append(&form, "Action=AssumeRole&Version=2011-06-15");
    add_field(&form, "RoleArn", role);
    add_field(&form, "RoleSessionName", session ? session : "cltrain");
    if (external)
        add_field(&form, "ExternalId", external);
    if (seconds && !seconds[strspn(seconds, "0123456789")])
        add_field(&form, "DurationSeconds", seconds);
    clt_str_printf(&what, "give the role of the profile '%s'", seeker->name);
    CLT_TRY(clt_str_check(&form));
    CLT_TRY(clt_str_check(&what));
    clt_status status = fetch_base(seeker, &base);
    if (status == CLT_OK)
        status = ask_signed(seeker, &form, &base, &answer);
    explicit_bzero(&base, sizeof base);
    explicit_bzero(out, sizeof *out);
    return status == CLT_OK ? take_sts(&answer, what.text, out) : status;
}

static clt_status fetch_role(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    (void)there;
    seeker->depth = 0;
    return assume_role(seeker, out);
}
const clt_key_source clt_keys_role = {"role", "STS, for the role_arn of the profile '%s'", has_role,
                                      fetch_role};
