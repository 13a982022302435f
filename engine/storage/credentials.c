/* SPDX-License-Identifier: Apache-2.0
 *
 * Tries the sources of keys one after the other, keeps the keys, and fetches them again before they
 * expire. */
#include "engine/storage/credentials.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/storage/credentials_internal.h"
#include "engine/storage/dates.h"
#include "engine/storage/retry.h"
#include "engine/storage/xml.h"

#define TOKEN_LIMIT 65536 /* most bytes of a file with a token */
#define MOST_ATTEMPTS 8
#define FETCH_SECONDS 30.0 /* how long failed requests for keys are retried */
#define SPARE_SECONDS 2.0  /* the same while old keys are valid, since requests to storage wait */
/* Keys are fetched again this time before they expire, or after 3/4 of their life if that is later. */
#define AHEAD_SECONDS 900.0
#define DOUBTED_SECONDS 300.0 /* how long new keys are used if they seem to have expired already */

static const clt_key_source *const sources[] = {&clt_keys_env,    &clt_keys_role,      &clt_keys_web,
                                                &clt_keys_sso,    &clt_keys_shared,    &clt_keys_process,
                                                &clt_keys_config, &clt_keys_container, &clt_keys_instance};

struct clt_credentials {
    clt_key_seeker seeker;
    pthread_mutex_t lock; /* guards all members */
    const clt_key_source *source;
    clt_keys keys;
    double valid_until; /* 0: for ever */
    double refresh_at, retry_at;
    bool have, expired;
};

clt_status clt_credentials_open(const clt_profile *profile, const char *region, const char *ca_file,
                                clt_credentials **out)
{
    clt_credentials *c = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "keys of object storage"));
    c->seeker = (clt_key_seeker){
        .profile = profile, .name = clt_profile_name(profile), .region = region, .ca_file = ca_file};
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->seeker.lock, NULL);
    *out = c;
    return CLT_OK;
}

void clt_credentials_close(clt_credentials *c)
{
    if (!c)
        return;
    clt_http_close(c->seeker.http);
    pthread_mutex_destroy(&c->seeker.lock);
    pthread_mutex_destroy(&c->lock);
    explicit_bzero(&c->keys, sizeof c->keys);
    free(c);
}

clt_status clt_key_http(clt_key_seeker *seeker)
{
    CLT_LOCKED(&seeker->lock);
    if (seeker->cancelled)
        CLT_FAIL(CLT_EINTERRUPTED, "requests for keys have been cancelled");
    return seeker->http ? CLT_OK : clt_http_open(&seeker->http);
}

void clt_credentials_cancel(clt_credentials *c)
{
    CLT_LOCKED(&c->seeker.lock);
    c->seeker.cancelled = true;
    if (c->seeker.http)
        clt_http_cancel(c->seeker.http);
}

static bool is_cancelled(void *context)
{
    clt_key_seeker *seeker = context;
    CLT_LOCKED(&seeker->lock);
    return seeker->cancelled;
}

clt_status clt_key_repeat(clt_key_seeker *seeker, clt_key_request make, void *context,
                          clt_http_answer *answer)
{
    for (int attempts = 1;; attempts++) {
        char error[64];
        CLT_TRY(clt_key_http(seeker));
        CLT_TRY(make(context, answer));
        clt_xml_copy((clt_xml){.text = answer->body, .size = answer->size}, "Code", error, sizeof error);
        const clt_s3_verdict verdict = clt_s3_judge(answer->code, answer->code == 200 ? "" : error, false);
        if ((verdict != CLT_S3_AGAIN && verdict != CLT_S3_SLOWER) || answer->too_large)
            return CLT_OK;
        const double asked = answer->code ? clt_retry_asked(seeker->http) : 0,
                     wait = clt_retry_wait(attempts, verdict, answer->code, asked);
        if (attempts == MOST_ATTEMPTS || clt_now() + wait > seeker->until)
            return CLT_OK;
        CLT_DEBUG("keys for object storage: %d %s%s: asked again after %.2f s", answer->code, error,
                  answer->code ? "" : answer->reason, wait);
        if (!clt_retry_sleep(wait, is_cancelled, seeker))
            CLT_FAIL(CLT_EINTERRUPTED, "requests for keys have been cancelled");
    }
}

/* The context of a request by clt_key_ask. */
typedef struct plain_request {
    clt_key_seeker *seeker;
    const clt_http_request *request;
} plain_request;

static clt_status ask_plainly(void *context, clt_http_answer *answer)
{
    const plain_request *p = context;
    return clt_http_ask(p->seeker->http, p->request, answer);
}

clt_status clt_key_ask(clt_key_seeker *seeker, const clt_http_request *request, const char *name,
                       clt_http_answer *answer)
{
    CLT_TRY(clt_key_repeat(seeker, ask_plainly, &(plain_request){seeker, request}, answer));
    if (!answer->code)
        CLT_FAIL(CLT_ESTORAGE, "%s: %s", name, answer->reason);
    return CLT_OK;
}

clt_status clt_key_read_token(const char *path, char **out)
{
    size_t size = 0;
    CLT_TRY(clt_file_read(path, false, TOKEN_LIMIT, CLT_ESTORAGE, out, &size));
    while (size > 0 && strchr("\r\n \t", (*out)[size - 1]))
        (*out)[--size] = '\0';
    if (strcspn(*out, "\r\n") != size)
        CLT_FAIL(CLT_ESTORAGE, "%s: the token has a line break, or a zero byte", path);
    return CLT_OK;
}

clt_status clt_key_take(const char *text, const char *name, char *buffer, size_t size)
{
    size_t length = strlen(text);
    if (length == 0)
        CLT_FAIL(CLT_ESTORAGE, "%s is empty", name);
    if (length >= size)
        CLT_FAIL(CLT_ESTORAGE, "%s has %zu characters; the most are %zu", name, length, size - 1);
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            CLT_FAIL(CLT_ESTORAGE,
                     "%s has a character that no key has (a blank, a line break, or beyond ASCII)", name);
    memcpy(buffer, text, length + 1);
    return CLT_OK;
}

static clt_status take_member(const clt_json *object, const char *member, const char *name, char *buffer,
                              size_t size)
{
    CLT_SCOPED(clt_str) what = {0};
    clt_str_printf(&what, "%s: %s", name, member);
    CLT_TRY(clt_str_check(&what));
    return clt_key_take(clt_json_string(clt_json_get(object, member)), what.text, buffer, size);
}

clt_status clt_keys_from_json(const char *text, size_t size, const char *name, clt_keys_form form,
                              clt_keys *out)
{
    const char *token_name = form == CLT_KEYS_OF_PROGRAM ? "SessionToken" : "Token";
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    if (clt_json_parse(text, size, name, CLT_ESTORAGE, &doc) != CLT_OK ||
        clt_json_typeof(clt_json_root(doc)) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ESTORAGE, "%s: the answer is not a JSON object", name); /* not shown: may hold keys */
    const clt_json *root = clt_json_root(doc), *code = clt_json_get(root, "Code"),
                   *token = clt_json_get(root, token_name), *end = clt_json_given(root, "Expiration");
    int64_t version = 0;
    if (form == CLT_KEYS_OF_PROGRAM && !clt_json_int_within(clt_json_get(root, "Version"), 1, 1, &version))
        CLT_FAIL(CLT_ESTORAGE, "%s: the answer has not the Version 1", name);
    if (code && !clt_json_is(code, "Success"))
        CLT_FAIL(CLT_ESTORAGE, "%s: %.100s", name, clt_json_string(code));
    CLT_TRY(take_member(root, "AccessKeyId", name, out->access, sizeof out->access));
    CLT_TRY(take_member(root, "SecretAccessKey", name, out->secret, sizeof out->secret));
    if (clt_json_string(token)[0])
        CLT_TRY(take_member(root, token_name, name, out->token, sizeof out->token));
    if (end && !clt_date_iso(clt_json_string(end), &out->expires))
        CLT_FAIL(CLT_ESTORAGE, "%s: Expiration is not a date", name);
    return CLT_OK;
}

/* --- the chain --- */

static clt_status no_keys(const clt_credentials *c)
{
    CLT_FAIL(
        CLT_ESTORAGE,
        "no keys for object storage were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give "
        "the profile '%s' in ~/.aws/credentials both; neither AWS_WEB_IDENTITY_TOKEN_FILE nor "
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is set, and this is not a machine of AWS that has a role",
        clt_profile_name(c->seeker.profile));
}

static clt_status fetch(clt_credentials *c, clt_keys *keys)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        bool there = true;
        if ((c->source && c->source != sources[i]) || !sources[i]->is_set(&c->seeker))
            continue;
        explicit_bzero(keys, sizeof *keys);
        clt_status status = sources[i]->fetch(&c->seeker, keys, &there);
        if (c->seeker.http)
            clt_http_forget(c->seeker.http);
        CLT_TRY(clt_fail_prefix(status, "keys for object storage: "));
        if (!there)
            continue;
        if (!c->source)
            CLT_DEBUG("keys for object storage: from the source '%s'", sources[i]->name);
        c->source = sources[i];
        return CLT_OK;
    }
    return no_keys(c);
}

static void keep(clt_credentials *c, const clt_keys *keys, double now)
{
    double end = (double)keys->expires;
    if (keys->expires && end <= now) /* this machine's clock is wrong, or the server says that they expired */
        end = now + DOUBTED_SECONDS;
    double left = end - now, ahead = left / 4 < AHEAD_SECONDS ? left / 4 : AHEAD_SECONDS;
    c->keys = *keys;
    c->valid_until = keys->expires ? end : 0;
    c->have = true;
    c->expired = false;
    c->refresh_at = end - ahead;
}

/* Fetches the keys if they are missing or about to expire. If that fails, old keys are used as long as they
 * are valid. */
static clt_status refresh(clt_credentials *c, double now)
{
    bool valid = c->have && !c->expired && (c->valid_until <= 0 || now < c->valid_until);
    if (valid && (c->valid_until <= 0 || now < c->refresh_at || now < c->retry_at))
        return CLT_OK;
    clt_keys keys = {.expires = 0};
    c->seeker.until = clt_now() + (valid ? SPARE_SECONDS : FETCH_SECONDS);
    clt_status status = fetch(c, &keys);
    if (status == CLT_OK)
        keep(c, &keys, now);
    explicit_bzero(&keys, sizeof keys);
    if (status == CLT_OK || !valid)
        return status;
    CLT_WARN("%s; the present keys are valid for %.0f s more", clt_error_text(), c->valid_until - now);
    clt_error_clear();
    c->retry_at = now + (c->valid_until - now) / 4;
    return CLT_OK;
}

/* A core dump would hold the keys. */
static void forbid_core_dumps(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0)
        return;
    limit.rlim_cur = 0;
    (void)setrlimit(RLIMIT_CORE, &limit);
}

clt_status clt_credentials_get_at(clt_credentials *c, double now, clt_keys *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, forbid_core_dumps);
    CLT_LOCKED(&c->lock);
    CLT_TRY(refresh(c, now));
    *out = c->keys;
    return CLT_OK;
}

clt_status clt_credentials_get(clt_credentials *c, clt_keys *out)
{
    return clt_credentials_get_at(c, clt_wall_time(), out);
}

void clt_credentials_expired(clt_credentials *c)
{
    CLT_LOCKED(&c->lock);
    c->expired = true;
}

void clt_credentials_describe(clt_credentials *c, char *out, size_t size)
{
    CLT_LOCKED(&c->lock);
    out[0] = '\0';
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !out[0]; i++) {
        const clt_key_source *s = sources[i];
        const char *blank = strstr(s->text, "%s");
        char role[257] = "";
        if (!s->is_set(&c->seeker))
            continue;
        if (s == &clt_keys_instance) {
            if (clt_key_role(&c->seeker, role, sizeof role) != CLT_OK)
                clt_error_clear();
            if (role[0])
                snprintf(out, size, "the role '%s' of the instance, by the metadata service", role);
            continue;
        }
        snprintf(out, size, "%.*s%s%s", blank ? (int)(blank - s->text) : (int)strlen(s->text), s->text,
                 blank ? c->seeker.name : "", blank ? blank + 2 : "");
    }
}

const char *clt_credentials_source(clt_credentials *c)
{
    CLT_LOCKED(&c->lock);
    return c->source ? c->source->name : "";
}
